use leasehold::{LockError, distributed_lock};
use tracing::instrument;

use super::support::{locked, tick};

#[distributed_lock(key = "order:<id>", ttl = "1s")]
#[instrument(skip(name), ret)]
async fn below(id: u64, name: String) -> Result<String, LockError> {
    tick().await;
    Ok(format!("{id}{name}"))
}

#[instrument(skip(name), err)]
#[distributed_lock(key = "order:<id>", ttl = "1s")]
async fn above(id: u64, name: String) -> Result<String, LockError> {
    tick().await;
    Ok(format!("{id}{name}"))
}

struct Service {
    region: String,
}

impl Service {
    #[distributed_lock(key = "<self.region>:<id>", ttl = "1s")]
    #[instrument(skip(self))]
    async fn method(&self, id: u64) -> Result<u64, LockError> {
        tick().await;
        Ok(id)
    }
}

#[tokio::test]
async fn instrument_works_on_either_side() {
    locked(async {
        assert_eq!(below(1, "a".into()).await.as_deref(), Ok("1a"));
        assert_eq!(above(1, "a".into()).await.as_deref(), Ok("1a"));
        let service = Service {
            region: "eu".into(),
        };
        assert_eq!(service.method(3).await, Ok(3));
    })
    .await;
}
