//! The database of the services. This program reads the database directly, to check the services'
//! answers.

use std::time::Duration;

#[cfg(feature = "postgres")]
use sqlx::PgPool;
use sqlx::SqlitePool;
use sqlx::sqlite::SqliteConnectOptions;

use crate::args::Args;
use crate::client::Failure;

#[derive(Debug)]
pub(crate) enum Ledger {
    Sqlite(SqlitePool),
    #[cfg(feature = "postgres")]
    Postgres(PgPool),
}

impl Ledger {
    pub(crate) async fn open(args: &Args) -> Result<Self, Failure> {
        if let Some(url) = &args.store {
            return Self::open_store(url).await;
        }
        let options = SqliteConnectOptions::new()
            .filename(args.database.as_deref().unwrap_or("".as_ref()))
            .busy_timeout(Duration::from_secs(10))
            .read_only(true);
        Ok(Self::Sqlite(SqlitePool::connect_with(options).await?))
    }

    #[cfg(feature = "postgres")]
    async fn open_store(url: &str) -> Result<Self, Failure> {
        Ok(Self::Postgres(PgPool::connect(url).await?))
    }

    #[cfg(not(feature = "postgres"))]
    async fn open_store(_: &str) -> Result<Self, Failure> {
        Err("build with `--features postgres` for `--store`".into())
    }

    pub(crate) async fn stock(&self, sku: &str) -> Result<i64, sqlx::Error> {
        self.number("SELECT stock FROM items WHERE sku = $1", sku)
            .await
    }

    pub(crate) async fn sold(&self, sku: &str) -> Result<i64, sqlx::Error> {
        self.number("SELECT COUNT(*) FROM orders WHERE sku = $1", sku)
            .await
    }

    /// Returns the number of orders whose id begins with `run`.
    pub(crate) async fn orders(&self, run: &str) -> Result<i64, sqlx::Error> {
        self.number("SELECT COUNT(*) FROM orders WHERE id LIKE $1 || '-%'", run)
            .await
    }

    /// Returns the number of calls to the payment provider for the orders whose id begins with
    /// `run`.
    pub(crate) async fn payments(&self, run: &str) -> Result<i64, sqlx::Error> {
        self.number(
            "SELECT COUNT(*) FROM payments WHERE order_id LIKE $1 || '-%'",
            run,
        )
        .await
    }

    async fn number(&self, sql: &'static str, parameter: &str) -> Result<i64, sqlx::Error> {
        match self {
            Self::Sqlite(pool) => {
                let asked = sqlx::query_scalar(sql).bind(parameter);
                asked.fetch_one(pool).await
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(pool) => {
                let asked = sqlx::query_scalar(sql).bind(parameter);
                asked.fetch_one(pool).await
            }
        }
    }
}
