use super::support::locked;

mod bare {
    #![no_implicit_prelude]

    use ::leasehold::{LockError, distributed_lock};
    use ::std::result::Result::{self, Ok};

    use super::super::support::tick;

    #[distributed_lock(key = "a:<n>", ttl = "1s", watchdog = "300ms", guard = lock)]
    pub(super) async fn create(n: u8) -> Result<u8, LockError> {
        tick().await;
        lock.check()?;
        Ok(n)
    }
}

#[tokio::test]
async fn a_module_without_prelude() {
    assert_eq!(locked(bare::create(1)).await, Ok(1));
}
