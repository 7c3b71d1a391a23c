use std::time::Duration;

use leasehold::{LockError, LockHandle, distributed_lock};

use super::support::{locked, tick};

#[distributed_lock(key = "order:<id>", ttl = "10s", guard = lock)]
async fn used(id: u64) -> Result<(String, Duration), LockError> {
    tick().await;
    lock.check()?;
    let left = lock.remaining();
    let _fence = lock.fence();
    Ok((format!("{}{id}", lock.key()), left))
}

#[distributed_lock(key = "order", ttl = "10s", guard = lock)]
async fn cloned() -> Result<LockHandle, LockError> {
    tick().await;
    let task = tokio::spawn(async move {
        lock.check()?;
        Ok(lock)
    });
    task.await.expect("it does not panic")
}

#[distributed_lock(key = "order", ttl = "10s", guard = _lock)]
async fn not_used() -> Result<(), LockError> {
    tick().await;
    Ok(())
}

#[tokio::test]
async fn the_body_can_use_the_guard_handle() {
    locked(async {
        let (text, left) = used(3).await.unwrap();
        assert_eq!(text, "order:33");
        assert!(left > Duration::ZERO && left <= Duration::from_secs(10));
        assert_eq!(cloned().await.unwrap().key(), "order");
        not_used().await.unwrap();
    })
    .await;
}
