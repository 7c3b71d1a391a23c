use std::future::Future;
use std::pin::Pin;

use leasehold::{LockError, distributed_lock};

use super::support::{locked, tick};

type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

#[distributed_lock(key = "tree:<depth>", ttl = "1s")]
fn walk(depth: u32) -> Pin<Box<dyn Future<Output = Result<u32, LockError>> + Send>> {
    Box::pin(async move {
        tick().await;
        if depth == 0 {
            return Ok(0);
        }
        Ok(walk(depth - 1).await? + 1)
    })
}

#[distributed_lock(key = "alias:<name>", ttl = "1s")]
fn alias<'a>(name: &'a str) -> BoxFuture<'a, Result<&'a str, LockError>> {
    Box::pin(async move {
        tick().await;
        Ok(name)
    })
}

/// The future is `'static`, so the lock must not borrow `_label`, which the body does not use.
#[distributed_lock(key = "label:<depth>", ttl = "1s")]
fn labelled(
    _label: &str,
    depth: u32,
) -> Pin<Box<dyn Future<Output = Result<u32, LockError>> + Send>> {
    Box::pin(async move {
        tick().await;
        Ok(depth)
    })
}

#[tokio::test]
async fn functions_returning_a_boxed_future_are_locked() {
    locked(async {
        assert_eq!(walk(3).await, Ok(3));
        assert_eq!(alias("x").await, Ok("x"));
        assert_eq!(labelled(&String::from("x"), 4).await, Ok(4));
    })
    .await;
}
