use leasehold::{LockError, distributed_lock};

use super::support::locked;

const REGION: &str = "eu:1";

struct Web;
struct Phone;

trait Channel: Sync {
    const KIND: &'static str;

    async fn create(&self, id: u64) -> Result<String, LockError>;
}

impl Channel for Web {
    const KIND: &'static str = "web";

    #[distributed_lock(key = "<Self::KIND>:order:<id>", ttl = "1s", guard = lock)]
    async fn create(&self, id: u64) -> Result<String, LockError> {
        Ok(lock.key().to_owned())
    }
}

impl Phone {
    const NUMBERS: (u8, u8) = (7, 9);

    #[distributed_lock(key = "phone:<Self::NUMBERS.1>", ttl = "1s", guard = lock)]
    async fn ring(&self) -> Result<String, LockError> {
        Ok(lock.key().to_owned())
    }
}

#[distributed_lock(key = "<self::REGION>:<id>", ttl = "1s", guard = lock)]
async fn of_the_module(id: u64) -> Result<String, LockError> {
    Ok(lock.key().to_owned())
}

#[distributed_lock(key = "<C::KIND>:<id>", ttl = "1s", guard = lock)]
async fn of_a_parameter<C: Channel>(_channel: &C, id: u64) -> Result<String, LockError> {
    Ok(lock.key().to_owned())
}

#[distributed_lock(key = "<u8::MAX>:<core::primitive::u16::MAX>", ttl = "1s", guard = lock)]
async fn of_another_crate() -> Result<String, LockError> {
    Ok(lock.key().to_owned())
}

#[tokio::test]
async fn a_constant_is_inserted_by_its_path() {
    locked(async {
        assert_eq!(Web.create(4).await.as_deref(), Ok("web:order:4"));
        assert_eq!(Phone.ring().await.as_deref(), Ok("phone:9"));
        assert_eq!(of_the_module(4).await.as_deref(), Ok("eu%3A1:4"));
        assert_eq!(of_a_parameter(&Web, 4).await.as_deref(), Ok("web:4"));
        assert_eq!(of_another_crate().await.as_deref(), Ok("255:65535"));
    })
    .await;
}
