use leasehold::{LockError, distributed_lock};

use super::support::{locked, tick};

#[distributed_lock(key = "depth:<depth>", ttl = "1s")]
async fn down(depth: u32) -> Result<u32, LockError> {
    tick().await;
    match depth {
        0 => Ok(0),
        _ => Ok(Box::pin(down(depth - 1)).await? + 1),
    }
}

#[tokio::test]
async fn recursion_through_a_box_works() {
    assert_eq!(locked(down(3)).await, Ok(3));
}
