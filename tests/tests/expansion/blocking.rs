//! Synchronous functions, in the shapes that the other modules test for async functions.

use std::fmt::Display;
use std::sync::{Arc, Mutex};

use leasehold::{LockError, LockHandle, distributed_lock, is_held};

use super::support::locked;

#[distributed_lock(key = "order:<id>", ttl = "1s")]
fn create(id: u64) -> Result<bool, LockError> {
    Ok(is_held(&format!("order:{id}")))
}

#[distributed_lock(key = ["a:<from>", "b:<to>"], ttl = "1s", guard = lock)]
fn several(from: u64, to: &str) -> Result<usize, LockError> {
    lock.check()?;
    assert_eq!(to, "x");
    assert_eq!(from, 1);
    Ok(lock.keys().count())
}

#[distributed_lock(key = "thing:<id>", ttl = "1s")]
fn generic<I: Display, T, E: From<LockError>>(id: I, value: T) -> Result<(String, T), E> {
    Ok((id.to_string(), value))
}

#[distributed_lock(key = "shown:<shown>", ttl = "1s")]
fn shown(shown: impl Display + Clone) -> Result<impl Display, LockError> {
    Ok(shown)
}

#[distributed_lock(key = "word:<text>", ttl = "1s")]
fn first(text: &str) -> Result<&str, LockError> {
    let mut words = text.split(' ');
    let Some(word) = words.next() else {
        return Ok(text);
    };
    Ok(word)
}

#[distributed_lock(key = "pair:<left>", ttl = "1s")]
fn patterns((left, mut right): (u64, u64), mut list: Vec<u64>) -> Result<Vec<u64>, LockError> {
    right += left;
    list.push(right);
    Ok(list)
}

#[distributed_lock(key = "sweep", ttl = "1s", on_error = drop)]
fn sweep() {}

#[distributed_lock(key = "sweep", ttl = "1s", on_error = |error| Err(error.to_string()))]
fn other_error(fails: bool) -> Result<u64, String> {
    if fails {
        return Err("failed".to_owned());
    }
    Ok(1)
}

#[distributed_lock(key = "worker", ttl = "1s", on_error = |error| panic!("{error}"))]
fn never() -> ! {
    panic!("stop")
}

#[distributed_lock(key = "tree:<depth>", ttl = "1s", reentrant)]
fn recursive(depth: u64) -> Result<u64, LockError> {
    if depth == 0 {
        return Ok(0);
    }
    Ok(recursive(depth - 1)? + 1)
}

#[distributed_lock(key = "outer:<id>", ttl = "1s")]
#[distributed_lock(key = "inner:<id>", ttl = "1s")]
fn stacked(id: u64) -> Result<bool, LockError> {
    Ok(is_held(&format!("outer:{id}")) && is_held(&format!("inner:{id}")))
}

/// A function that calls its own `block_on`, which the attribute must accept. The attribute refuses
/// this name only in `main`, and in a body that begins with `let body = async`. There, the name
/// shows that `#[tokio::main]` or a similar attribute has already made an async function
/// synchronous.
#[distributed_lock(key = "bridge:<id>", ttl = "1s")]
fn bridge(id: u64) -> Result<u64, LockError> {
    Ok(block_on(|| id))
}

fn block_on<T>(work: impl FnOnce() -> T) -> T {
    work()
}

struct Account {
    id: u64,
    cents: u64,
}

impl Account {
    #[distributed_lock(key = "account:<self.id>", ttl = "1s")]
    fn balance(&self) -> Result<&u64, LockError> {
        Ok(&self.cents)
    }

    #[distributed_lock(key = "account:<self.id>", ttl = "1s")]
    fn deposit(&mut self, cents: u64) -> Result<&mut Self, LockError> {
        self.cents += cents;
        Ok(self)
    }

    #[distributed_lock(key = "account:<self.id>", ttl = "1s")]
    fn audit(self: &Arc<Self>) -> Result<u64, LockError> {
        Ok(self.cents)
    }

    #[distributed_lock(key = "account:<self.id>", ttl = "1s")]
    fn close(self) -> Result<u64, LockError> {
        Ok(self.cents)
    }
}

trait Till {
    fn pay(&self, cents: u64) -> Result<u64, LockError>;

    #[distributed_lock(key = "till:<cents>", ttl = "1s")]
    fn count(&self, cents: u64) -> Result<u64, LockError> {
        Ok(cents)
    }
}

impl Till for Account {
    #[distributed_lock(key = "till:<self.id>", ttl = "1s")]
    fn pay(&self, cents: u64) -> Result<u64, LockError> {
        Ok(self.cents + cents)
    }
}

/// A value that adds a flag to a list when it is dropped: true if its lock is still held.
struct Witness(Option<LockHandle>, Arc<Mutex<Vec<bool>>>);

impl Witness {
    fn watches(&mut self, lock: LockHandle) {
        self.0 = Some(lock);
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        let held = self.0.as_ref().is_some_and(|lock| lock.check().is_ok());
        self.1.lock().unwrap().push(held);
    }
}

#[distributed_lock(key = "witness", ttl = "5s", guard = lock)]
fn arguments(mut one: Witness, _two: Witness) -> Result<LockHandle, LockError> {
    one.watches(lock.clone());
    Ok(lock)
}

#[test]
fn a_test_may_have_the_attribute() {
    assert_eq!(without_a_pool(), Err(LockError::NotInstalled));
}

#[distributed_lock(key = "nothing", ttl = "1s")]
fn without_a_pool() -> Result<(), LockError> {
    Ok(())
}

#[tokio::test]
async fn free_functions() {
    locked(async {
        assert_eq!(create(1), Ok(true));
        assert_eq!(several(1, "x"), Ok(2));
        let generic = generic::<_, _, LockError>(2, 'a');
        assert_eq!(generic, Ok(("2".to_owned(), 'a')));
        assert_eq!(shown("x").unwrap().to_string(), "x");
        assert_eq!(first("one two"), Ok("one"));
        assert_eq!(patterns((1, 2), vec![7]), Ok(vec![7, 3]));
        sweep();
        assert_eq!(other_error(true), Err("failed".to_owned()));
        assert_eq!(other_error(false), Ok(1));
        assert_eq!(stacked(3), Ok(true));
        assert_eq!(bridge(4), Ok(4));
        assert!(matches!(recursive(1), Ok(1)));
    })
    .await;
}

#[tokio::test]
#[should_panic(expected = "stop")]
async fn the_panic_of_a_function_that_never_returns_is_the_callers() {
    locked(async { never() }).await;
}

#[tokio::test]
async fn methods() {
    locked(async {
        let mut account = Account { id: 1, cents: 5 };
        assert_eq!(account.deposit(1).unwrap().cents, 6);
        assert_eq!(account.balance(), Ok(&6));
        assert_eq!((account.pay(1), account.count(1)), (Ok(7), Ok(1)));
        let account = Arc::new(account);
        assert_eq!(account.audit(), Ok(6));
        let account = Arc::into_inner(account).expect("the only one");
        assert_eq!(account.close(), Ok(6));
    })
    .await;
}

/// Fails if the argument `one` is dropped after the release, or if an argument is not dropped.
#[tokio::test]
async fn arguments_die_before_the_release() {
    let deaths = Arc::new(Mutex::new(Vec::new()));
    locked(async {
        let (one, two) = (Arc::clone(&deaths), Arc::clone(&deaths));
        let lock = arguments(Witness(None, one), Witness(None, two)).unwrap();
        assert!(lock.check().is_err(), "the lock is released");
    })
    .await;
    let deaths = deaths.lock().unwrap().clone();
    assert_eq!(deaths.len(), 2);
    assert!(deaths.contains(&true));
}
