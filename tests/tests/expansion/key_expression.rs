use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use leasehold::{LockError, distributed_lock};

use super::support::{locked, tick};

const NIGHTLY: &str = "nightly";

struct Order {
    id: u64,
    key: String,
}

impl Order {
    fn into_key(self) -> String {
        self.key
    }
}

#[distributed_lock(key = NIGHTLY, ttl = "1s", guard = lock)]
async fn constant() -> Result<String, LockError> {
    Ok(lock.key().to_owned())
}

#[distributed_lock(key = format!("order:{}", order.id), ttl = "1s", guard = lock)]
async fn formatted(order: Order) -> Result<String, LockError> {
    Ok(lock.key().to_owned())
}

#[distributed_lock(key = order.key, ttl = "1s", guard = lock)]
async fn field(order: Order) -> Result<String, LockError> {
    drop(order);
    Ok(lock.key().to_owned())
}

#[distributed_lock(key = order.into_key(), ttl = "1s", guard = lock)]
async fn consumed(order: Order) -> Result<String, LockError> {
    Ok(lock.key().to_owned())
}

#[distributed_lock(key = key.unwrap_or_default(), ttl = "1s", guard = lock)]
async fn unwrapped(key: Option<String>) -> Result<String, LockError> {
    Ok(lock.key().to_owned())
}

#[distributed_lock(key = same(order.key), ttl = "1s", guard = lock)]
async fn partly_moved(order: Order) -> Result<String, LockError> {
    Ok(lock.key().to_owned())
}

/// Settings whose mutex is locked for each option.
struct Settings(Mutex<(String, Duration)>);

impl Settings {
    fn lock(&self) -> MutexGuard<'_, (String, Duration)> {
        self.0
            .try_lock()
            .expect("the guard of an earlier option is dropped")
    }
}

#[distributed_lock(
    key = [settings.lock().0.as_str(), settings.lock().0.get(1..).unwrap_or_default()],
    ttl = settings.lock().1,
    wait = settings.lock().1,
    max_hold = settings.lock().1,
    watchdog = settings.lock().1 / 4
)]
async fn guarded(settings: &Settings) -> Result<(), LockError> {
    tick().await;
    Ok(())
}

#[distributed_lock(key = parse(name)?, ttl = "1s", guard = lock)]
async fn fallible(name: &str) -> Result<String, LockError> {
    Ok(lock.key().to_owned())
}

#[distributed_lock(key = id, ttl = "1s", guard = lock)]
async fn number(id: u64) -> Result<String, LockError> {
    Ok(lock.key().to_owned())
}

#[distributed_lock(key = { let half = id / 2; format!("half:{half}") }, ttl = "1s", guard = lock)]
async fn block(id: u64) -> Result<String, LockError> {
    Ok(lock.key().to_owned())
}

#[distributed_lock(key = lookup(id).await, ttl = "1s", guard = lock)]
async fn awaited(id: u64) -> Result<String, LockError> {
    Ok(lock.key().to_owned())
}

const fn same(key: String) -> String {
    key
}

fn parse(name: &str) -> Result<&str, LockError> {
    name.strip_prefix('/').ok_or(LockError::ShuttingDown)
}

async fn lookup(id: u64) -> String {
    tick().await;
    format!("found:{id}")
}

fn order() -> Order {
    Order {
        id: 4,
        key: "k 4".into(),
    }
}

#[tokio::test]
async fn key_expressions_are_used_unchanged() {
    locked(async {
        assert_eq!(constant().await.as_deref(), Ok("nightly"));
        assert_eq!(formatted(order()).await.as_deref(), Ok("order:4"));
        assert_eq!(field(order()).await.as_deref(), Ok("k 4"));
        assert_eq!(consumed(order()).await.as_deref(), Ok("k 4"));
        assert_eq!(unwrapped(Some("k".into())).await.as_deref(), Ok("k"));
        assert_eq!(partly_moved(order()).await.as_deref(), Ok("k 4"));
        assert_eq!(fallible("/x").await.as_deref(), Ok("x"));
        assert_eq!(fallible("x").await, Err(LockError::ShuttingDown));
        assert_eq!(number(12).await.as_deref(), Ok("12"));
        assert_eq!(block(12).await.as_deref(), Ok("half:6"));
        assert_eq!(awaited(12).await.as_deref(), Ok("found:12"));
    })
    .await;
}

/// Each option locks the same mutex. Fails if the guard of one option is still there when the next
/// option is evaluated.
#[tokio::test]
async fn guards_in_options_do_not_overlap() {
    let settings = Settings(Mutex::new(("key".into(), Duration::from_secs(10))));
    assert_eq!(locked(guarded(&settings)).await, Ok(()));
}
