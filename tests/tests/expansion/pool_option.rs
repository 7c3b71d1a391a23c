use std::sync::Arc;

use leasehold::{LockError, LockPool, distributed_lock};

use super::support::{pool, tick};

#[distributed_lock(key = "a", ttl = "1s", pool = "expansion")]
async fn named() -> Result<u8, LockError> {
    tick().await;
    Ok(1)
}

#[distributed_lock(key = "a", ttl = "1s", pool = "nobody installed it")]
async fn unknown() -> Result<u8, LockError> {
    tick().await;
    Ok(1)
}

struct Service {
    locks: LockPool,
    shared: Arc<LockPool>,
}

impl Service {
    #[distributed_lock(key = "a", ttl = "1s", pool = self.locks)]
    async fn owned(&self) -> Result<u8, LockError> {
        tick().await;
        Ok(2)
    }

    #[distributed_lock(key = "a", ttl = "1s", pool = self.shared)]
    async fn shared(&self) -> Result<u8, LockError> {
        tick().await;
        Ok(3)
    }

    const fn locks(&self) -> &LockPool {
        &self.locks
    }

    #[distributed_lock(key = "a", ttl = "1s", pool = self.locks())]
    async fn method(&self) -> Result<u8, LockError> {
        tick().await;
        Ok(4)
    }
}

#[distributed_lock(key = "a", ttl = "1s", pool = pool)]
async fn argument(pool: &LockPool) -> Result<u8, LockError> {
    tick().await;
    Ok(5)
}

#[tokio::test]
async fn names_and_expressions() {
    let pool = pool().await;
    pool.install_as("expansion").unwrap();
    assert_eq!(named().await, Ok(1));
    assert!(unknown().await.is_err());
    let service = Service {
        locks: pool.clone(),
        shared: Arc::new(pool.clone()),
    };
    assert_eq!(service.owned().await, Ok(2));
    assert_eq!(service.shared().await, Ok(3));
    assert_eq!(service.method().await, Ok(4));
    assert_eq!(argument(&pool).await, Ok(5));
}
