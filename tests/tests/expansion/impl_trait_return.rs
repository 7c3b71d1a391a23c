use std::fmt::Display;

use leasehold::{LockError, distributed_lock};

use super::support::{locked, tick};

#[distributed_lock(key = "a", ttl = "1s")]
async fn inside(n: u8) -> Result<impl Display, LockError> {
    tick().await;
    Ok(n)
}

#[distributed_lock(key = "a", ttl = "1s")]
async fn outside(n: u8) -> impl std::fmt::Debug {
    tick().await;
    Ok::<u8, LockError>(n)
}

#[distributed_lock(key = "a", ttl = "1s", on_error = |_| 0)]
async fn recovered(n: u8) -> impl Display {
    tick().await;
    n
}

#[distributed_lock(key = "a", ttl = "1s")]
async fn nested(n: usize) -> Result<Vec<impl Fn(u8) -> u8>, LockError> {
    tick().await;
    Ok(vec![|m| m + 1; n])
}

#[tokio::test]
async fn hidden_types() {
    locked(async {
        assert_eq!(inside(3).await.map(|n| n.to_string()).as_deref(), Ok("3"));
        assert_eq!(format!("{:?}", outside(4).await), "Ok(4)");
        assert_eq!(recovered(5).await.to_string(), "5");
        assert_eq!(nested(2).await.unwrap()[1](1), 2);
    })
    .await;
}
