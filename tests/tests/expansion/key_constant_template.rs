use leasehold::{LockError, distributed_lock};

use super::support::locked;

const TEMPLATE: &str = "order:<id>";
const ANGLES: &str = "order:<other>";

#[distributed_lock(key = TEMPLATE, ttl = "1s")]
async fn constant(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = ["a", TEMPLATE], ttl = "1s")]
async fn element(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

struct Shop {
    template: &'static str,
}

impl Shop {
    #[distributed_lock(key = self.template, ttl = "1s")]
    async fn field(&self, id: u64) -> Result<u64, LockError> {
        Ok(id)
    }
}

#[distributed_lock(key = ANGLES, ttl = "1s", guard = lock)]
async fn no_argument(_id: u64) -> Result<String, LockError> {
    Ok(lock.key().to_owned())
}

/// Uses the text of the caller as the key, so angle brackets in it are not a template.
#[distributed_lock(key = id, ttl = "1s", guard = lock)]
async fn argument(id: &str) -> Result<String, LockError> {
    Ok(lock.key().to_owned())
}

/// The macro cannot fill in placeholders in a constant or a field. Fails if a key with the
/// placeholder of an argument is accepted, because all calls would then share one key.
#[tokio::test]
async fn is_refused() {
    locked(async {
        for result in [
            constant(1).await,
            element(1).await,
            Shop { template: TEMPLATE }.field(1).await,
        ] {
            let error = result.unwrap_err();
            assert!(matches!(error, LockError::InvalidKey { .. }), "{error:?}");
            let text = error.to_string();
            assert!(text.contains("`<id>`"), "{text}");
            assert!(text.contains("`key = \"order:<id>\"`"), "{text}");
        }
        assert_eq!(no_argument(1).await.as_deref(), Ok("order:<other>"));
        assert_eq!(argument("<id>").await.as_deref(), Ok("<id>"));
    })
    .await;
}
