use leasehold::{LockError, distributed_lock};

use super::support::{locked, tick};

#[distributed_lock(key = "a", ttl = "1s")]
async fn named(_id: u64, _permit: String, _: Vec<u8>) -> Result<u8, LockError> {
    tick().await;
    Ok(1)
}

#[distributed_lock(key = "a", ttl = "1s")]
async fn in_patterns((_left, right): (String, u8), _rest: &str) -> Result<u8, LockError> {
    tick().await;
    Ok(right)
}

#[tokio::test]
async fn arguments_may_begin_with_an_underscore() {
    locked(async {
        assert_eq!(named(1, String::new(), Vec::new()).await, Ok(1));
        assert_eq!(in_patterns((String::new(), 2), "").await, Ok(2));
    })
    .await;
}
