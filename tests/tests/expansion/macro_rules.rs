use leasehold::{LockError, distributed_lock};

use super::support::{locked, tick};

macro_rules! whole {
    ($name:ident) => {
        #[distributed_lock(key = "macro:<id>", ttl = "1s")]
        async fn $name(id: u64, _rest: u8) -> Result<u64, LockError> {
            tick().await;
            Ok(id)
        }
    };
}

macro_rules! parts {
    ($name:ident, $id:ident: $ty:ty, $key:literal, $ttl:expr_2021, $body:block) => {
        #[distributed_lock(key = $key, ttl = $ttl, guard = _lock)]
        async fn $name($id: $ty, _unused: u8) -> Result<$ty, LockError> $body
    };
}

macro_rules! item {
    ($item:item) => {
        #[distributed_lock(key = "item:<n>", ttl = "1s")]
        $item
    };
}

whole!(whole);
parts!(parts, id: u64, "parts:<id>", "1s", {
    tick().await;
    Ok(id)
});
parts!(underscored, _id: u64, "parts:<_id>", "1s", {
    tick().await;
    Ok(1)
});
item! {
    async fn item(n: u64) -> Result<u64, LockError> {
        tick().await;
        Ok(n)
    }
}

#[tokio::test]
async fn functions_from_macros() {
    locked(async {
        assert_eq!(whole(1, 0).await, Ok(1));
        assert_eq!(parts(2, 0).await, Ok(2));
        assert_eq!(underscored(2, 0).await, Ok(1));
        assert_eq!(item(3).await, Ok(3));
    })
    .await;
}
