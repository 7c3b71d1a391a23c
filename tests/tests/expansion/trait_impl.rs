use std::future::Future;

use leasehold::{LockError, distributed_lock};

use super::support::{locked, tick};

trait Repository {
    type Error;

    async fn save(&self, id: u64) -> Result<u64, Self::Error>;

    fn load(&self, id: u64) -> impl Future<Output = Result<u64, Self::Error>> + Send;
}

struct Postgres {
    table: &'static str,
}

impl Repository for Postgres {
    type Error = LockError;

    #[distributed_lock(key = "<self.table>:<id>", ttl = "1s")]
    async fn save(&self, id: u64) -> Result<u64, Self::Error> {
        tick().await;
        Ok(id + 1)
    }

    #[distributed_lock(key = "<self.table>:<id>", ttl = "1s")]
    async fn load(&self, id: u64) -> Result<u64, Self::Error> {
        tick().await;
        Ok(id + 2)
    }
}

async fn both<R: Repository + Sync>(repository: &R) -> Result<u64, R::Error> {
    Ok(repository.save(1).await? + repository.load(1).await?)
}

#[tokio::test]
async fn native_async_methods() {
    assert_eq!(locked(both(&Postgres { table: "orders" })).await, Ok(5));
}
