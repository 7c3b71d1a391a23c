use std::fmt::Display;

use async_trait::async_trait;
use leasehold::{LockError, distributed_lock};

use super::support::{locked, tick};

#[async_trait]
trait Shop<T> {
    async fn buy(&self, line: (u64, String), note: &str, other: u8) -> Result<String, LockError>;
    async fn generic<'a, D>(&self, item: &'a T, tag: D) -> Result<&'a T, LockError>
    where
        D: Display + Send + Sync,
        T: 'a;
}

struct Web;

#[async_trait]
impl<T: Sync + 'static> Shop<T> for Web {
    #[distributed_lock(key = "buy:<id>:<name>:<note>", ttl = "1s")]
    async fn buy(
        &self,
        (id, mut name): (u64, String),
        note: &str,
        _: u8,
    ) -> Result<String, LockError> {
        tick().await;
        name.push('!');
        Ok(format!("{id}{name}{note}"))
    }

    #[distributed_lock(key = "generic:<tag>", ttl = "1s")]
    async fn generic<'a, D>(&self, item: &'a T, tag: D) -> Result<&'a T, LockError>
    where
        D: Display + Send + Sync,
        T: 'a,
    {
        tick().await;
        drop(tag);
        Ok(item)
    }
}

#[tokio::test]
async fn patterns_and_generics() {
    locked(async {
        let shop: &dyn Send = &Web;
        let _ = shop;
        let text = Shop::<u8>::buy(&Web, (1, "lamp".into()), "x", 0).await;
        assert_eq!(text.as_deref(), Ok("1lamp!x"));
        assert_eq!(Web.generic(&7, "t").await, Ok(&7));
    })
    .await;
}
