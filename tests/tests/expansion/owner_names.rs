use async_trait::async_trait;
use leasehold::{LockError, LockPool, distributed_lock};

use super::support::pool;

/// Returns the function that holds the lock `k`.
async fn holder(pool: &LockPool) -> Result<String, LockError> {
    let lock = pool.inspect("k").await?;
    let owner = lock.holders[0].owner.clone();
    Ok(owner.expect("a lock of this library").function)
}

#[async_trait]
trait Desk {
    async fn open(&self, pool: &LockPool) -> Result<String, LockError>;
}

trait Shop {
    async fn sell(&self, pool: &LockPool) -> Result<String, LockError>;
    async fn inner(&self, pool: &LockPool) -> Result<String, LockError>;
}

struct Orders;
struct Of<T>(T);

mod a_module_with_a_name_of_many_letters {
    pub(super) mod another_one_with_a_name_of_many_letters {
        pub(in super::super) struct Orders;
    }
}

use a_module_with_a_name_of_many_letters::another_one_with_a_name_of_many_letters as long;

impl Orders {
    #[distributed_lock(key = "k", ttl = "1s", pool = pool)]
    async fn create(&self, pool: &LockPool) -> Result<String, LockError> {
        let _ = self;
        holder(pool).await
    }
}

impl long::Orders {
    #[distributed_lock(key = "k", ttl = "1s", pool = pool)]
    async fn create(&self, pool: &LockPool) -> Result<String, LockError> {
        let _ = self;
        holder(pool).await
    }
}

#[async_trait]
impl Desk for Orders {
    #[distributed_lock(key = "k", ttl = "1s", pool = pool)]
    async fn open(&self, pool: &LockPool) -> Result<String, LockError> {
        holder(pool).await
    }
}

impl Shop for Orders {
    #[distributed_lock(key = "k", ttl = "1s", pool = pool)]
    async fn sell(&self, pool: &LockPool) -> Result<String, LockError> {
        holder(pool).await
    }

    async fn inner(&self, pool: &LockPool) -> Result<String, LockError> {
        struct Local;

        impl Local {
            #[distributed_lock(key = "k", ttl = "1s", pool = pool)]
            async fn count(&self, pool: &LockPool) -> Result<String, LockError> {
                let _ = self;
                holder(pool).await
            }
        }

        Local.count(pool).await
    }
}

impl<T: Sync> Shop for Of<T> {
    #[distributed_lock(key = "k", ttl = "1s", pool = pool)]
    async fn sell(&self, pool: &LockPool) -> Result<String, LockError> {
        holder(pool).await
    }

    async fn inner(&self, pool: &LockPool) -> Result<String, LockError> {
        self.sell(pool).await
    }
}

#[distributed_lock(key = "k", ttl = "1s", pool = pool)]
async fn free(pool: &LockPool) -> Result<String, LockError> {
    holder(pool).await
}

/// Fails if the owner of a lock does not show the type and the name of the method that has the
/// lock.
#[tokio::test]
async fn owners_name_the_type_and_the_method() {
    let pool = &pool().await;
    let of = Of(1_u8);
    assert_eq!(of.0, 1);
    for (owner, name) in [
        (free(pool).await, "free"),
        (Orders.create(pool).await, "Orders::create"),
        (Orders.open(pool).await, "Orders::open"),
        (Orders.sell(pool).await, "Orders::sell"),
        (of.sell(pool).await, "Of<_>::sell"),
        (of.inner(pool).await, "Of<_>::sell"),
        // The type `Local` is declared inside a method. Its method `count` is reported without the
        // type, like a function of the module.
        (Orders.inner(pool).await, "count"),
    ] {
        assert_eq!(owner, Ok(format!("{}::{name}", module_path!())));
    }
    let long = long::Orders.create(pool).await.expect("free");
    assert!(
        long.contains('…') && long.ends_with("::Orders::create"),
        "{long}"
    );
}
