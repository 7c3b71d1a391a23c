use leasehold::{LockError, distributed_lock};

use super::support::{pool, tick};

#[distributed_lock(key = "order:<id>", ttl = "1s", guard = lock)]
async fn create(id: u64, items: Vec<String>) -> Result<usize, LockError> {
    tick().await;
    lock.check()?;
    Ok(items.len() + usize::from(id == 1))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_future_is_send() {
    let pool = pool().await;
    let task = tokio::spawn(async move { pool.scope(create(1, vec!["a".into()])).await });
    assert_eq!(task.await.unwrap(), Ok(2));
}
