use leasehold::{LockError, distributed_lock};

use super::support::{locked, tick};

#[distributed_lock(key = "order:<id>", ttl = "1s")]
async fn create(
    #[cfg(any())] id: Missing,
    #[cfg(not(any()))] id: u64,
    #[cfg(any())] extra: Missing,
    #[cfg(not(any()))] _note: &str,
    #[allow(unused_variables)] ignored: u8,
) -> Result<u64, LockError> {
    tick().await;
    #[cfg(any())]
    drop(extra);
    Ok(id)
}

#[tokio::test]
async fn arguments_follow_their_cfg() {
    assert_eq!(locked(create(1, "x", 2)).await, Ok(1));
}
