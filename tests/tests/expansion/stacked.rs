use leasehold::{LockError, distributed_lock};

use super::support::{locked, tick};

#[distributed_lock(key = "tenant:<tenant>", ttl = "1s", guard = outer)]
#[distributed_lock(key = "order:<id>", ttl = "1s", guard = inner)]
async fn create(tenant: &str, id: u64) -> Result<String, LockError> {
    tick().await;
    Ok(format!("{tenant}{id} {} {}", outer.key(), inner.key()))
}

#[tokio::test]
async fn two_locks_on_one_function() {
    let text = locked(create("t", 1)).await;
    assert_eq!(text.as_deref(), Ok("t1 tenant:t order:1"));
}
