//! The code of one buyer. Compare the two functions: they have the same body, without and with the
//! lock.

use std::time::Duration;

use leasehold::{LockError, distributed_lock};

use crate::stock::Stock;

/// Result of a visit to the shop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Bought,
    SoldOut,
}

/// Takes one item: reads the stock, thinks, writes the stock. Two buyers who read the same number
/// both get the same item.
pub(crate) async fn buy_without_lock(
    stock: &Stock,
    thinking: Duration,
) -> Result<Outcome, SaleError> {
    let left = stock.read().await?;
    if left == 0 {
        return Ok(Outcome::SoldOut);
    }
    tokio::time::sleep(thinking).await;
    stock.write(left - 1).await?;
    Ok(Outcome::Bought)
}

/// Like `buy_without_lock`, but for only one buyer at a time across all processes. The other buyers
/// queue for up to a minute.
#[distributed_lock(key = "stock:<stock.name()>", ttl = "10s", wait = "60s")]
pub(crate) async fn buy_with_lock(stock: &Stock, thinking: Duration) -> Result<Outcome, SaleError> {
    buy_without_lock(stock, thinking).await
}

/// An error that ends the sale.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SaleError {
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(
        "no Redis at the URL of --store ({0}); `redis-server` starts one at redis://127.0.0.1/"
    )]
    NoRedis(redis::RedisError),
    #[error("the stock in Redis: {0}")]
    Stock(#[from] redis::RedisError),
    #[error("a process of the sale: {0}")]
    Process(String),
}

impl From<std::io::Error> for SaleError {
    fn from(error: std::io::Error) -> Self {
        Self::Process(error.to_string())
    }
}
