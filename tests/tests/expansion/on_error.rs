use std::time::Duration;

use leasehold::{LockError, distributed_lock};

use super::support::locked;

/// Length of a key in bytes, above the maximum of 512.
const LONG: usize = 600;

#[distributed_lock(key = "<name>", ttl = "1s", on_error = |error| error.to_string())]
async fn closure(name: String) -> String {
    name.len().to_string()
}

fn to_zero(_: LockError) -> usize {
    0
}

#[distributed_lock(key = "<name>", ttl = "1s", on_error = to_zero)]
async fn path(name: &str) -> usize {
    name.len()
}

#[distributed_lock(key = "<name>", ttl = "1s", on_error = |_| None)]
async fn option(name: &str) -> Option<usize> {
    Some(name.len())
}

#[distributed_lock(key = "<name>", ttl = "1s", on_error = |error| Err(format!("{error}")))]
async fn other_error(name: &str) -> Result<usize, String> {
    Ok(name.len())
}

struct Service {
    fallback: usize,
}

impl Service {
    const fn failed(&self, _error: &LockError) -> usize {
        self.fallback
    }

    #[distributed_lock(key = "<name>", ttl = Duration::from_secs(1), on_error = |e| self.failed(&e))]
    async fn method(&self, name: &str) -> usize {
        name.len() + self.fallback
    }
}

#[tokio::test]
async fn on_error_returns_its_value_if_the_lock_fails() {
    let long = "x".repeat(LONG);
    locked(async {
        assert_eq!(closure("ab".into()).await, "2");
        assert!(closure(long.clone()).await.contains("more than 512 bytes"));
        assert_eq!(path("ab").await, 2);
        assert_eq!(path(&long).await, 0);
        assert_eq!(option("ab").await, Some(2));
        assert_eq!(option(&long).await, None);
        assert_eq!(other_error("ab").await, Ok(2));
        assert!(other_error(&long).await.is_err());
        let service = Service { fallback: 7 };
        assert_eq!(service.method("ab").await, 9);
        assert_eq!(service.method(&long).await, 7);
    })
    .await;
}
