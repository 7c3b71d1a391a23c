use std::sync::{Arc, Mutex, OnceLock};

use async_trait::async_trait;
use leasehold::{LockError, LockHandle, distributed_lock};

use super::support::{locked, tick};

/// The record that several witnesses share. When a witness is dropped, it adds its name and a flag:
/// true if the lock is still held.
#[derive(Clone, Default)]
struct Record {
    lock: Arc<OnceLock<LockHandle>>,
    deaths: Arc<Mutex<Vec<(&'static str, bool)>>>,
}

impl Record {
    fn witness(&self, name: &'static str) -> Witness {
        Witness {
            name,
            id: 1,
            record: self.clone(),
        }
    }

    fn deaths(&self) -> Vec<(&'static str, bool)> {
        let handle = self.lock.get().expect("the body ran");
        assert!(handle.check().is_err(), "the lock is released");
        self.deaths.lock().unwrap().clone()
    }
}

struct Witness {
    name: &'static str,
    id: u64,
    record: Record,
}

impl Witness {
    const fn id(&self) -> u64 {
        self.id
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        let held = self
            .record
            .lock
            .get()
            .is_some_and(|lock| lock.check().is_ok());
        self.record.deaths.lock().unwrap().push((self.name, held));
    }
}

#[distributed_lock(key = "a:<key.id>:<method.id()>", ttl = "5s", guard = lock)]
async fn arguments(
    record: &Record,
    key: Witness,
    method: Witness,
    _named: Witness,
    (pair, _): (Witness, u8),
    partly: (Witness, Witness),
) -> Result<(), LockError> {
    record.lock.set(lock).expect("once");
    tick().await;
    let _local = record.witness("local");
    drop(pair);
    drop(partly.1);
    Ok(())
}

#[distributed_lock(key = format!("b:{}", key.id), ttl = "5s", guard = lock)]
async fn in_an_expression(record: &Record, key: Witness) -> Result<(), LockError> {
    record.lock.set(lock).expect("once");
    tick().await;
    Ok(())
}

#[distributed_lock(key = "c", ttl = "5s", guard = lock)]
async fn early(record: &Record, used: Witness) -> Result<u64, LockError> {
    record.lock.set(lock).expect("once");
    tick().await;
    if used.id == 1 {
        Err(LockError::ShuttingDown)?;
    }
    Ok(used.id)
}

#[distributed_lock(key = "d", ttl = "5s", guard = lock)]
async fn bare(record: &Record, _: Witness) -> Result<(), LockError> {
    record.lock.set(lock).expect("once");
    tick().await;
    Ok(())
}

#[distributed_lock(key = "g:<r#type.id>", ttl = "5s", guard = lock)]
async fn raw(record: &Record, r#type: Witness) -> Result<(), LockError> {
    record.lock.set(lock).expect("once");
    tick().await;
    Ok(())
}

impl Witness {
    #[distributed_lock(key = "e:<self.id>", ttl = "5s", guard = lock)]
    async fn consumed(self) -> Result<(), LockError> {
        tick().await;
        self.record.lock.set(lock).expect("once");
        Ok(())
    }

    #[distributed_lock(key = "h", ttl = "5s", guard = lock)]
    #[allow(clippy::unused_self, reason = "this is the case")]
    async fn unused(self, record: &Record) -> Result<(), LockError> {
        tick().await;
        record.lock.set(lock).expect("once");
        Ok(())
    }

    #[distributed_lock(key = "i", ttl = "5s")]
    async fn ordered(
        self,
        second: Self,
        _third: Self,
        (fourth, fifth): (Self, Self),
    ) -> Result<(), LockError> {
        tick().await;
        assert_eq!((fifth.id, second.id, self.id, fourth.id), (1, 1, 1, 1));
        Ok(())
    }

    async fn ordered_without(self, second: Self, _third: Self, (fourth, fifth): (Self, Self)) {
        tick().await;
        assert_eq!((fifth.id, second.id, self.id, fourth.id), (1, 1, 1, 1));
    }

    #[distributed_lock(key = "j", ttl = "5s")]
    fn ordered_blocking(self, second: Self, _third: Self) -> Result<(), LockError> {
        assert_eq!((second.id, self.id), (1, 1));
        Ok(())
    }
}

#[async_trait]
trait Job {
    async fn run(&self, record: &Record, key: Witness, other: Witness) -> Result<(), LockError>;
}

#[async_trait]
trait Consumed {
    async fn not_used(self, record: &Record) -> Result<(), LockError>;
}

#[async_trait]
impl Consumed for Witness {
    #[distributed_lock(key = "k", ttl = "5s", guard = lock)]
    async fn not_used(self, record: &Record) -> Result<(), LockError> {
        record.lock.set(lock).expect("once");
        tick().await;
        Ok(())
    }
}

struct Nightly;

#[async_trait]
impl Job for Nightly {
    #[distributed_lock(key = "f:<key.id>", ttl = "5s", guard = lock)]
    async fn run(&self, record: &Record, key: Witness, _: Witness) -> Result<(), LockError> {
        record.lock.set(lock).expect("once");
        tick().await;
        Ok(())
    }
}

fn held(names: &[&'static str]) -> Vec<(&'static str, bool)> {
    names.iter().map(|name| (*name, true)).collect()
}

#[tokio::test]
async fn arguments_and_locals_are_dropped_before_the_release() {
    let record = Record::default();
    let witness = |name| record.witness(name);
    let partly = (witness("kept"), witness("moved"));
    let pair = (witness("pair"), 0);
    let call = arguments(
        &record,
        witness("key"),
        witness("method"),
        witness("named"),
        pair,
        partly,
    );
    locked(call).await.unwrap();
    let mut deaths = record.deaths();
    assert_eq!(deaths[..3], held(&["pair", "moved", "local"]));
    deaths.sort_unstable();
    assert_eq!(
        deaths,
        held(&["kept", "key", "local", "method", "moved", "named", "pair"])
    );
}

#[tokio::test]
async fn key_only_arguments_are_dropped_before_the_release() {
    let record = Record::default();
    locked(in_an_expression(&record, record.witness("key")))
        .await
        .unwrap();
    assert_eq!(record.deaths(), held(&["key"]));
    let record = Record::default();
    locked(raw(&record, record.witness("raw"))).await.unwrap();
    assert_eq!(record.deaths(), held(&["raw"]));
}

#[tokio::test]
async fn arguments_are_dropped_first_after_an_early_return() {
    let record = Record::default();
    let result = locked(early(&record, record.witness("used"))).await;
    assert_eq!(result, Err(LockError::ShuttingDown));
    assert_eq!(record.deaths(), held(&["used"]));
}

#[tokio::test]
async fn self_is_dropped_before_the_release() {
    let record = Record::default();
    locked(record.witness("self").consumed()).await.unwrap();
    assert_eq!(record.deaths(), held(&["self"]));
    let record = Record::default();
    let unused = record.witness("self").unused(&record);
    locked(unused).await.unwrap();
    assert_eq!(record.deaths(), held(&["self"]));
    let record = Record::default();
    let unused = record.witness("self").not_used(&record);
    locked(unused).await.unwrap();
    assert_eq!(record.deaths(), held(&["self"]));
}

/// Fails if arguments are dropped in another order than without the attribute.
#[tokio::test(flavor = "multi_thread")]
async fn arguments_are_dropped_in_the_usual_order() {
    let names = |record: &Record| {
        let deaths = record.deaths.lock().unwrap();
        deaths.iter().map(|(name, _)| *name).collect::<Vec<_>>()
    };
    let all = |record: &Record| {
        ["first", "second", "third", "fourth", "fifth"].map(|name| record.witness(name))
    };
    let record = Record::default();
    let [first, second, third, fourth, fifth] = all(&record);
    let without = first.ordered_without(second, third, (fourth, fifth));
    without.await;
    let usual = names(&record);
    assert_eq!(usual, ["fifth", "fourth", "third", "second", "first"]);

    let record = Record::default();
    let [first, second, third, fourth, fifth] = all(&record);
    let call = first.ordered(second, third, (fourth, fifth));
    locked(call).await.unwrap();
    assert_eq!(names(&record), usual);

    let record = Record::default();
    let [first, second, third, ..] = all(&record);
    let call = async { tokio::task::block_in_place(|| first.ordered_blocking(second, third)) };
    locked(call).await.unwrap();
    assert_eq!(names(&record)[2..], usual[2..]);
}

#[tokio::test]
async fn unnamed_async_trait_arguments_drop_before_the_release() {
    let record = Record::default();
    locked(Nightly.run(&record, record.witness("key"), record.witness("bare")))
        .await
        .unwrap();
    let mut deaths = record.deaths();
    deaths.sort_unstable();
    assert_eq!(deaths, held(&["bare", "key"]));
}

/// The macro cannot move an argument without a name (`_`) into the body. So this argument is
/// dropped after the release, as the documentation notes.
#[tokio::test]
async fn an_unnamed_argument_is_dropped_after_the_release() {
    let record = Record::default();
    locked(bare(&record, record.witness("bare"))).await.unwrap();
    assert_eq!(record.deaths(), [("bare", false)]);
}
