use super::support::locked;

/// A module in the role of a crate that re-exports `leasehold` to its users.
mod shop {
    pub(super) use leasehold::{self, LockError, distributed_lock};

    macro_rules! locked_by_name {
        ($name:ident) => {
            #[super::shop::distributed_lock(
                                                                key = "order:<id>",
                                                                ttl = "1s",
                                                                crate = super::shop::leasehold
                                                            )]
            pub(super) async fn $name(id: u64) -> Result<u64, super::shop::LockError> {
                Ok(id)
            }
        };
    }
    pub(super) use locked_by_name;
}

#[shop::distributed_lock(key = "order:<id>", ttl = "1s", crate = shop::leasehold)]
async fn relative(id: u64) -> Result<u64, shop::LockError> {
    Ok(id)
}

#[shop::distributed_lock(
    key = ["order:<id>", id + 1],
    ttl = "1s",
    cooldown = "1ms",
    detach,
    crate = self::shop::leasehold
)]
async fn from_here(id: u64) -> Result<u64, shop::LockError> {
    Ok(id)
}

mod inner {
    super::shop::locked_by_name!(by_a_macro);

    pub(super) async fn call() -> Result<u64, super::shop::LockError> {
        by_a_macro(3).await
    }
}

#[tokio::test]
async fn the_crate_option_sets_the_path_of_the_runtime() {
    locked(async {
        assert_eq!(relative(1).await, Ok(1));
        assert_eq!(from_here(2).await, Ok(2));
        assert_eq!(inner::call().await, Ok(3));
    })
    .await;
}
