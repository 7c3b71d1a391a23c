use std::sync::Mutex;

use leasehold::{LockError, distributed_lock};

use super::support::{locked, tick};

#[distributed_lock(key = "tenant:<tenant>", ttl = "1s", guard = upper)]
#[distributed_lock(key = "order:<id>", ttl = "1s", guard = lower)]
async fn create(tenant: &str, id: u64) -> Result<String, LockError> {
    tick().await;
    Ok(format!("{tenant}{id} {} {}", upper.key(), lower.key()))
}

type Log = Mutex<Vec<&'static str>>;

fn noted(log: &Log, key: &'static str) -> &'static str {
    log.lock().unwrap().push(key);
    key
}

#[distributed_lock(key = noted(log, "upper"), ttl = "1s")]
#[distributed_lock(key = noted(log, "lower"), ttl = "1s")]
async fn ordered(log: &Log) -> Result<(), LockError> {
    tick().await;
    noted(log, "body");
    Ok(())
}

#[tokio::test]
async fn two_locks_on_one_function() {
    let text = locked(create("t", 1)).await;
    assert_eq!(text.as_deref(), Ok("t1 tenant:t order:1"));
}

/// Fails if the lock of the upper attribute is taken first, unlike in the documentation.
#[tokio::test]
async fn the_lower_lock_is_taken_first() {
    let log = Log::default();
    assert_eq!(locked(ordered(&log)).await, Ok(()));
    assert_eq!(*log.lock().unwrap(), ["lower", "upper", "body"]);
}
