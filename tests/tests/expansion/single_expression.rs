use leasehold::{LockError, distributed_lock};

use super::support::{locked, tick};

#[rustfmt::skip]
#[distributed_lock(key = "a", ttl = "1s", on_error = |_| 0)]
async fn one() -> u8 { 1 }

#[rustfmt::skip]
#[distributed_lock(key = "a", ttl = "1s")]
async fn awaited() -> Result<u8, LockError> { inner().await }

#[rustfmt::skip]
#[distributed_lock(key = "a", ttl = "1s", on_error = drop)]
async fn awaited_unit() { tick().await }

#[rustfmt::skip]
#[distributed_lock(key = "a", ttl = "1s")]
#[allow(clippy::needless_return, reason = "this is the case")]
async fn diverges(n: u8) -> Result<u8, LockError> { return Ok(n) }

async fn inner() -> Result<u8, LockError> {
    tick().await;
    Ok(2)
}

#[tokio::test]
async fn braces_around_one_expression_are_accepted() {
    locked(async {
        assert_eq!(one().await, 1);
        assert_eq!(awaited().await, Ok(2));
        awaited_unit().await;
        assert_eq!(diverges(3).await, Ok(3));
    })
    .await;
}
