//! A trait with annotated methods, and a database transaction inside the lock.
//!
//! ```sh
//! LEASEHOLD_URL=redis://127.0.0.1/ cargo run -p leasehold-services --bin repositories shop.sqlite 42 43
//! ```
//!
//! For each order, the program sells a kettle. It needs `leasehold`, `sqlx`, `thiserror` and
//! `tokio`.

use std::error::Error;
use std::time::Duration;

use leasehold::{Fence, LockError, LockPool, distributed_lock};
use leasehold_services::payments;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool};

/// Contents of a new database.
const SCHEMA: &str = "
    CREATE TABLE items (sku TEXT PRIMARY KEY, stock INTEGER, fence INTEGER);
    CREATE TABLE orders (id TEXT PRIMARY KEY, sku TEXT);
    INSERT INTO items VALUES ('kettle', 2, 0);
";

#[derive(Debug, thiserror::Error)]
enum StockError {
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error("sold out")]
    SoldOut,
    #[error("a later buyer was served meanwhile; nothing was sold")]
    TooLate,
    #[error("no payment")]
    Payment(#[from] std::io::Error),
    #[error("the database: {0}")]
    Database(#[from] sqlx::Error),
}

/// The stock, as the shop uses it. The trait does not mention locks.
trait Stock {
    /// Sells one item, and returns the number of items left.
    async fn sell(&self, sku: &str, order: &str) -> Result<i64, StockError>;
}

struct SqliteStock {
    db: SqlitePool,
    locks: LockPool,
    region: &'static str,
}

impl Stock for SqliteStock {
    #[distributed_lock(
        key = "stock:<self.region>:<sku>",
        ttl = "5s",
        watchdog,
        wait = "10s",
        pool = self.locks,
        guard = lock
    )]
    async fn sell(&self, sku: &str, order: &str) -> Result<i64, StockError> {
        let fence = lock.fence().map(Fence::as_i64);
        let mut transaction = self.db.begin().await?;
        // This first statement writes the fence, so it waits until an open transaction of an
        // earlier holder has ended. If an earlier holder runs this statement late, the row has a
        // newer fence, and the statement changes nothing.
        let stock: Option<i64> = sqlx::query_scalar(
            "UPDATE items SET fence = ?1 WHERE sku = ?2 AND fence <= ?1 RETURNING stock",
        )
        .bind(fence)
        .bind(sku)
        .fetch_optional(&mut *transaction)
        .await?;
        let left = stock.ok_or(StockError::TooLate)? - 1;
        if left < 0 {
            return Err(StockError::SoldOut);
        }
        sqlx::query("UPDATE items SET stock = ?1 WHERE sku = ?2")
            .bind(left)
            .bind(sku)
            .execute(&mut *transaction)
            .await?;
        sqlx::query("INSERT INTO orders (id, sku) VALUES (?1, ?2)")
            .bind(order)
            .bind(sku)
            .execute(&mut *transaction)
            .await?;
        // If the payment is refused or the lease is lost, the transaction is dropped and rolls
        // back.
        payments::charge(order).await?;
        transaction.commit().await?; // inside the body, so inside the lock
        Ok(left)
    }
}

async fn sell_all(stock: &impl Stock, orders: impl Iterator<Item = String>) {
    for order in orders {
        match stock.sell("kettle", &order).await {
            Ok(left) => println!("order {order}: sold, {left} left"),
            Err(error) => println!("order {order}: {error}"),
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().ok_or("usage: repositories FILE ORDER…")?;
    let new = !std::path::Path::new(&file).exists();
    let options = SqliteConnectOptions::new()
        .filename(file)
        .create_if_missing(true)
        .busy_timeout(Duration::from_secs(10)); // writers of all processes wait for each other
    let db = SqlitePool::connect_with(options).await?;
    if new {
        sqlx::raw_sql(SCHEMA).execute(&db).await?;
    }
    let locks = LockPool::connect(&std::env::var("LEASEHOLD_URL")?).await?;
    let region = "eu";
    let stock = SqliteStock { db, locks, region };
    sell_all(&stock, arguments).await;
    stock.locks.shutdown(Duration::from_secs(5)).await;
    Ok(())
}
