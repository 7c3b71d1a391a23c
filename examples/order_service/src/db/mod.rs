//! The database: SQLite, shared by all processes of one machine, or PostgreSQL.

#[cfg(feature = "postgres")]
mod postgres;
mod sqlite;

use std::path::Path;

use leasehold::LockHandle;
use serde::{Deserialize, Serialize};
use sqlx::SqlitePool;

use crate::config::Config;
use crate::error::ApiError;

#[derive(Debug, Clone)]
pub(crate) enum Db {
    Sqlite(sqlite::Sqlite),
    /// PostgreSQL, in the database that also has the locks.
    #[cfg(feature = "postgres")]
    Postgres(postgres::Postgres),
}

#[derive(Debug, Serialize)]
pub(crate) struct Item {
    pub(crate) sku: String,
    pub(crate) stock: i64,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    id: String,
    sku: String,
    fence: i64,
}

impl Db {
    /// Opens the database, creates its tables, and adds the configured items that are missing.
    pub(crate) async fn open(config: &Config) -> Result<Self, sqlx::Error> {
        #[cfg(feature = "postgres")]
        if let Some(url) = &config.store {
            let db = postgres::Postgres::open(url, &config.items).await?;
            return Ok(Self::Postgres(db));
        }
        Self::open_file(&config.database, &config.items).await
    }

    /// Like `open`, but with an SQLite file.
    pub(crate) async fn open_file(
        path: &Path,
        items: &[(String, u32)],
    ) -> Result<Self, sqlx::Error> {
        let db = sqlite::Sqlite::open(path, items).await?;
        Ok(Self::Sqlite(db))
    }

    /// Returns the SQLite pool for the demonstration's own table.
    pub(crate) fn file(&self) -> &SqlitePool {
        match self {
            Self::Sqlite(db) => db.pool(),
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => unreachable!("`--demo` excludes `--store`"),
        }
    }

    /// Sells one item under `lock`: reads the stock, and writes the sale together with the new
    /// stock. Either both are written or neither. A call whose lease has ended cannot overwrite the
    /// sale of a later buyer.
    pub(crate) async fn sell(
        &self,
        sku: &str,
        order_id: &str,
        lock: &LockHandle,
    ) -> Result<Order, ApiError> {
        match self {
            Self::Sqlite(db) => db.sell(sku, order_id, lock).await,
            #[cfg(feature = "postgres")]
            Self::Postgres(db) => db.sell(sku, order_id, lock).await,
        }
    }

    pub(crate) async fn record_payment(&self, order_id: &str) -> Result<(), sqlx::Error> {
        match self {
            Self::Sqlite(db) => db.record_payment(order_id).await,
            #[cfg(feature = "postgres")]
            Self::Postgres(db) => db.record_payment(order_id).await,
        }
    }

    pub(crate) async fn item(&self, sku: &str) -> Result<Option<Item>, sqlx::Error> {
        match self {
            Self::Sqlite(db) => db.item(sku).await,
            #[cfg(feature = "postgres")]
            Self::Postgres(db) => db.item(sku).await,
        }
    }

    pub(crate) async fn items(&self) -> Result<Vec<Item>, sqlx::Error> {
        match self {
            Self::Sqlite(db) => db.items().await,
            #[cfg(feature = "postgres")]
            Self::Postgres(db) => db.items().await,
        }
    }

    pub(crate) async fn order(&self, id: &str) -> Result<Option<Order>, sqlx::Error> {
        match self {
            Self::Sqlite(db) => db.order(id).await,
            #[cfg(feature = "postgres")]
            Self::Postgres(db) => db.order(id).await,
        }
    }

    /// Returns the number of orders, and the latest hundred.
    pub(crate) async fn orders(&self) -> Result<(i64, Vec<Order>), sqlx::Error> {
        match self {
            Self::Sqlite(db) => db.orders().await,
            #[cfg(feature = "postgres")]
            Self::Postgres(db) => db.orders().await,
        }
    }
}
