//! The services' database, read from outside.

use std::path::Path;
use std::time::Duration;

use sqlx::SqlitePool;
use sqlx::sqlite::SqliteConnectOptions;

#[derive(Debug)]
pub(crate) struct Ledger {
    pool: SqlitePool,
}

impl Ledger {
    pub(crate) async fn open(path: &Path) -> Result<Self, sqlx::Error> {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .busy_timeout(Duration::from_secs(10))
            .read_only(true);
        let pool = SqlitePool::connect_with(options).await?;
        Ok(Self { pool })
    }

    pub(crate) async fn stock(&self, sku: &str) -> Result<i64, sqlx::Error> {
        self.number("SELECT stock FROM items WHERE sku = ?", sku)
            .await
    }

    pub(crate) async fn sold(&self, sku: &str) -> Result<i64, sqlx::Error> {
        self.number("SELECT COUNT(*) FROM orders WHERE sku = ?", sku)
            .await
    }

    /// Orders whose id begins with `run`.
    pub(crate) async fn orders(&self, run: &str) -> Result<i64, sqlx::Error> {
        self.number("SELECT COUNT(*) FROM orders WHERE id LIKE ? || '-%'", run)
            .await
    }

    /// How often the payment provider was asked for them.
    pub(crate) async fn payments(&self, run: &str) -> Result<i64, sqlx::Error> {
        self.number(
            "SELECT COUNT(*) FROM payments WHERE order_id LIKE ? || '-%'",
            run,
        )
        .await
    }

    async fn number(&self, sql: &str, parameter: &str) -> Result<i64, sqlx::Error> {
        sqlx::query_scalar(sql)
            .bind(parameter)
            .fetch_one(&self.pool)
            .await
    }
}
