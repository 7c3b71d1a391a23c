//! The shop in SQLite, with the locks in any lock store. The fence of the lock guards the rows.

use std::path::Path;
use std::time::Duration;

use leasehold::{Fence, LockHandle};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{FromRow, Row as _, SqlitePool};

use super::{Item, Order};
use crate::error::ApiError;

#[derive(Debug, Clone)]
pub(crate) struct Sqlite {
    pool: SqlitePool,
}

impl Sqlite {
    /// Opens the file, creates the tables, and adds the `items` that are missing.
    pub(crate) async fn open(path: &Path, items: &[(String, u32)]) -> Result<Self, sqlx::Error> {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .busy_timeout(Duration::from_secs(10)) // writers of all processes wait for each other
            .journal_mode(SqliteJournalMode::Wal) // and readers do not wait for them
            .synchronous(SqliteSynchronous::Normal);
        let pool = SqlitePoolOptions::new()
            .max_connections(8)
            .connect_with(options)
            .await?;
        sqlx::raw_sql(include_str!("sqlite.sql"))
            .execute(&pool)
            .await?;
        for (sku, stock) in items {
            sqlx::query("INSERT OR IGNORE INTO items (sku, stock) VALUES (?, ?)")
                .bind(sku)
                .bind(stock)
                .execute(&pool)
                .await?;
        }
        Ok(Self { pool })
    }

    /// Returns the pool for the demonstration's own table.
    pub(crate) fn pool(&self) -> &SqlitePool {
        &self.pool
    }

    pub(crate) async fn sell(
        &self,
        sku: &str,
        order_id: &str,
        lock: &LockHandle,
    ) -> Result<Order, ApiError> {
        let fence = lock.fence().expect("a single store numbers its locks");
        let stock = self.stock_under(sku, fence).await?;
        if stock <= 0 {
            return Err(ApiError::SoldOut(sku.to_owned()));
        }
        self.record_sale(order_id, sku, stock - 1, fence).await
    }

    /// Returns the stock of an item, for a caller that holds the lock with this `fence`. First
    /// writes the fence into the row. After that, no writer with an older fence can change the
    /// stock.
    async fn stock_under(&self, sku: &str, fence: Fence) -> Result<i64, ApiError> {
        sqlx::query_scalar(
            "UPDATE items SET fence = ?1 WHERE sku = ?2 AND fence <= ?1 RETURNING stock",
        )
        .bind(fence.as_i64())
        .bind(sku)
        .fetch_optional(&self.pool)
        .await?
        .ok_or(ApiError::TooLate)
    }

    /// Records a sale and the new stock. Either both are written or neither.
    ///
    /// The `fence` must be that of the lock under which the stock was read. If a later buyer has
    /// read the stock meanwhile, the row has a newer fence, and nothing is written.
    async fn record_sale(
        &self,
        order_id: &str,
        sku: &str,
        stock_after: i64,
        fence: Fence,
    ) -> Result<Order, ApiError> {
        let fence = fence.as_i64();
        let mut transaction = self.pool.begin().await?;
        let updated = sqlx::query("UPDATE items SET stock = ?1 WHERE sku = ?2 AND fence = ?3")
            .bind(stock_after)
            .bind(sku)
            .bind(fence)
            .execute(&mut *transaction)
            .await?;
        if updated.rows_affected() == 0 {
            return Err(ApiError::TooLate);
        }
        sqlx::query("INSERT INTO orders (id, sku, fence) VALUES (?, ?, ?)")
            .bind(order_id)
            .bind(sku)
            .bind(fence)
            .execute(&mut *transaction)
            .await?;
        transaction.commit().await?;
        Ok(Order {
            id: order_id.to_owned(),
            sku: sku.to_owned(),
            fence,
        })
    }

    pub(crate) async fn record_payment(&self, order_id: &str) -> Result<(), sqlx::Error> {
        sqlx::query("INSERT INTO payments (order_id) VALUES (?)")
            .bind(order_id)
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    pub(crate) async fn item(&self, sku: &str) -> Result<Option<Item>, sqlx::Error> {
        sqlx::query_as("SELECT sku, stock FROM items WHERE sku = ?")
            .bind(sku)
            .fetch_optional(&self.pool)
            .await
    }

    pub(crate) async fn items(&self) -> Result<Vec<Item>, sqlx::Error> {
        sqlx::query_as("SELECT sku, stock FROM items ORDER BY rowid")
            .fetch_all(&self.pool)
            .await
    }

    pub(crate) async fn order(&self, id: &str) -> Result<Option<Order>, sqlx::Error> {
        sqlx::query_as("SELECT id, sku, fence FROM orders WHERE id = ?")
            .bind(id)
            .fetch_optional(&self.pool)
            .await
    }

    /// Returns the number of orders, and the latest hundred.
    pub(crate) async fn orders(&self) -> Result<(i64, Vec<Order>), sqlx::Error> {
        let count = sqlx::query_scalar("SELECT COUNT(*) FROM orders")
            .fetch_one(&self.pool)
            .await?;
        let latest =
            sqlx::query_as("SELECT id, sku, fence FROM orders ORDER BY rowid DESC LIMIT 100")
                .fetch_all(&self.pool)
                .await?;
        Ok((count, latest))
    }
}

impl FromRow<'_, sqlx::sqlite::SqliteRow> for Item {
    fn from_row(row: &sqlx::sqlite::SqliteRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            sku: row.try_get("sku")?,
            stock: row.try_get("stock")?,
        })
    }
}

impl FromRow<'_, sqlx::sqlite::SqliteRow> for Order {
    fn from_row(row: &sqlx::sqlite::SqliteRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            id: row.try_get("id")?,
            sku: row.try_get("sku")?,
            fence: row.try_get("fence")?,
        })
    }
}
