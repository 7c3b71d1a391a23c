use leasehold::{LockError, distributed_lock};

use super::support::{locked, tick};

#[distributed_lock(key = "n:<n>", ttl = "1s")]
async fn count(mut n: u32, log: &mut Vec<u32>) -> Result<u32, LockError> {
    while n > 0 {
        tick().await;
        log.push(n);
        n -= 1;
    }
    Ok(n)
}

#[distributed_lock(key = "items", ttl = "1s")]
async fn sorted(mut items: Vec<u8>) -> Result<Vec<u8>, LockError> {
    tick().await;
    items.sort_unstable();
    Ok(items)
}

#[tokio::test]
async fn mut_arguments_are_mutable_in_the_body() {
    locked(async {
        let mut log = Vec::new();
        assert_eq!(count(3, &mut log).await, Ok(0));
        assert_eq!(log, [3, 2, 1]);
        assert_eq!(sorted(vec![2, 1]).await, Ok(vec![1, 2]));
    })
    .await;
}
