use leasehold::{LockError, distributed_lock};

use super::support::{locked, tick};

#[distributed_lock(
    key = "all:<id>",
    ttl = "10s",
    watchdog = "3s",
    max_hold = "1m",
    wait = "2s",
    on_lost = "continue",
    on_error = Err,
    guard = lock,
)]
async fn every_option(id: u64) -> Result<u64, LockError> {
    tick().await;
    lock.check()?;
    Ok(id)
}

#[distributed_lock(on_lost = "cancel", ttl = "10s", key = "b")]
async fn any_order() -> Result<u64, LockError> {
    tick().await;
    Ok(2)
}

#[tokio::test]
async fn together() {
    locked(async {
        assert_eq!(every_option(1).await, Ok(1));
        assert_eq!(any_order().await, Ok(2));
    })
    .await;
}
