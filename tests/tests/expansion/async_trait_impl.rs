use std::sync::Arc;

use async_trait::async_trait;
use leasehold::{LockError, distributed_lock};

use super::support::{locked, tick};

#[async_trait]
trait Repository: Send + Sync {
    async fn save(&self, order: Order) -> Result<u64, LockError>;
    async fn rename(&mut self, name: &str) -> Result<&str, LockError>;
    async fn consume(self: Box<Self>) -> Result<String, LockError>;
    async fn shared(self: Arc<Self>) -> Result<usize, LockError>;
    async fn unit(&self);
    async fn new(name: String) -> Result<Self, LockError>
    where
        Self: Sized;
}

struct Order {
    id: u64,
}

struct Postgres {
    name: String,
}

#[async_trait]
impl Repository for Postgres {
    #[distributed_lock(key = "<self.name>:<order.id>", ttl = "1s", guard = lock)]
    async fn save(&self, order: Order) -> Result<u64, LockError> {
        tick().await;
        lock.check()?;
        Ok(order.id + self.name.len() as u64)
    }

    #[distributed_lock(key = format!("{}:{name}", self.name), ttl = "1s")]
    async fn rename(&mut self, name: &str) -> Result<&str, LockError> {
        tick().await;
        name.clone_into(&mut self.name);
        Ok(&self.name)
    }

    #[distributed_lock(key = "<self.name>", ttl = "1s")]
    async fn consume(self: Box<Self>) -> Result<String, LockError> {
        tick().await;
        Ok(self.name)
    }

    #[distributed_lock(key = self.name, ttl = "1s")]
    async fn shared(self: Arc<Self>) -> Result<usize, LockError> {
        tick().await;
        Ok(Arc::strong_count(&self))
    }

    #[distributed_lock(key = "unit", ttl = "1s", on_error = drop)]
    async fn unit(&self) {
        tick().await;
    }

    #[distributed_lock(key = "new:<name>", ttl = "1s")]
    async fn new(name: String) -> Result<Self, LockError> {
        tick().await;
        Ok(Self { name })
    }
}

#[tokio::test]
async fn every_method_locks() {
    locked(async {
        let mut postgres = Postgres::new("eu".into()).await.unwrap();
        assert_eq!(postgres.rename("us").await, Ok("us"));
        assert_eq!(postgres.save(Order { id: 3 }).await, Ok(5));
        postgres.unit().await;
        assert_eq!(Box::new(postgres).consume().await.as_deref(), Ok("us"));
        let shared = Arc::new(Postgres { name: "eu".into() });
        assert_eq!(shared.shared().await, Ok(1));
    })
    .await;
}
