use async_trait::async_trait;
use leasehold::{LockError, distributed_lock};
use tracing::instrument;

use super::support::{locked, tick};

#[async_trait]
trait Repository {
    async fn below(&self, pair: (u64, u64)) -> Result<u64, LockError>;
    async fn above(&self, pair: (u64, u64)) -> Result<u64, LockError>;
}

struct Postgres {
    offset: u64,
}

#[async_trait]
impl Repository for Postgres {
    #[distributed_lock(key = "<self.offset>:<id>", ttl = "1s")]
    #[instrument(skip_all)]
    async fn below(&self, (id, more): (u64, u64)) -> Result<u64, LockError> {
        tick().await;
        Ok(self.offset + id + more)
    }

    #[instrument(skip(self))]
    #[distributed_lock(key = "<self.offset>:<id>", ttl = "1s")]
    async fn above(&self, (id, more): (u64, u64)) -> Result<u64, LockError> {
        tick().await;
        Ok(self.offset + id + more)
    }
}

#[tokio::test]
async fn instrument_works_on_either_side() {
    locked(async {
        let postgres = Postgres { offset: 10 };
        assert_eq!(postgres.below((1, 2)).await, Ok(13));
        assert_eq!(postgres.above((1, 2)).await, Ok(13));
    })
    .await;
}
