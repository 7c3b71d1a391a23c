//! The shop in PostgreSQL, with its locks in the same database.
//!
//! The rows need no fence against late writers, because the transaction of a sale verifies its
//! lock. The transaction then commits before another buyer gets the lock, or not at all.

use leasehold::postgres::LEASE_OVER;
use leasehold::{Fence, LockHandle};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;

use super::{Item, Order};
use crate::error::ApiError;

#[derive(Debug, Clone)]
pub(crate) struct Postgres {
    pool: PgPool,
}

impl Postgres {
    /// Creates the tables, and adds the `items` that are missing.
    pub(crate) async fn open(url: &str, items: &[(String, u32)]) -> Result<Self, sqlx::Error> {
        let pool = PgPoolOptions::new().max_connections(8).connect(url).await?;
        sqlx::raw_sql(include_str!("postgres.sql"))
            .execute(&pool)
            .await?;
        for (sku, stock) in items {
            sqlx::query("INSERT INTO items (sku, stock) VALUES ($1, $2) ON CONFLICT DO NOTHING")
                .bind(sku)
                .bind(i64::from(*stock))
                .execute(&pool)
                .await?;
        }
        Ok(Self { pool })
    }

    /// Sells in one transaction. After `verify`, no other buyer gets the lock until the transaction
    /// has ended, even if the lease ends meanwhile. So the stock read here cannot change before
    /// this transaction writes the new stock.
    pub(crate) async fn sell(
        &self,
        sku: &str,
        order_id: &str,
        lock: &LockHandle,
    ) -> Result<Order, ApiError> {
        let fence = lock.fence().map(Fence::as_i64);
        let mut transaction = self.pool.begin().await?;
        sqlx::query("SELECT leasehold.verify($1, $2)")
            .bind(lock.full_key())
            .bind(fence)
            .execute(&mut *transaction)
            .await
            .map_err(over_or_broken)?;
        let stock: i64 = sqlx::query_scalar("SELECT stock FROM items WHERE sku = $1")
            .bind(sku)
            .fetch_optional(&mut *transaction)
            .await?
            .ok_or_else(|| ApiError::NoSuchItem(sku.to_owned()))?;
        if stock <= 0 {
            return Err(ApiError::SoldOut(sku.to_owned()));
        }
        sqlx::query("UPDATE items SET stock = $1 WHERE sku = $2")
            .bind(stock - 1)
            .bind(sku)
            .execute(&mut *transaction)
            .await?;
        let (id, sku, fence) = sqlx::query_as(
            "INSERT INTO orders (id, sku, fence) VALUES ($1, $2, $3) RETURNING id, sku, fence",
        )
        .bind(order_id)
        .bind(sku)
        .bind(fence)
        .fetch_one(&mut *transaction)
        .await?;
        transaction.commit().await?;
        Ok(Order { id, sku, fence })
    }

    pub(crate) async fn record_payment(&self, order_id: &str) -> Result<(), sqlx::Error> {
        sqlx::query("INSERT INTO payments (order_id) VALUES ($1)")
            .bind(order_id)
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    pub(crate) async fn item(&self, sku: &str) -> Result<Option<Item>, sqlx::Error> {
        let row = sqlx::query_as("SELECT sku, stock FROM items WHERE sku = $1")
            .bind(sku)
            .fetch_optional(&self.pool)
            .await?;
        Ok(row.map(|(sku, stock)| Item { sku, stock }))
    }

    pub(crate) async fn items(&self) -> Result<Vec<Item>, sqlx::Error> {
        let rows: Vec<_> = sqlx::query_as("SELECT sku, stock FROM items ORDER BY place")
            .fetch_all(&self.pool)
            .await?;
        let items = rows.into_iter().map(|(sku, stock)| Item { sku, stock });
        Ok(items.collect())
    }

    pub(crate) async fn order(&self, id: &str) -> Result<Option<Order>, sqlx::Error> {
        let row = sqlx::query_as("SELECT id, sku, fence FROM orders WHERE id = $1")
            .bind(id)
            .fetch_optional(&self.pool)
            .await?;
        Ok(row.map(|(id, sku, fence)| Order { id, sku, fence }))
    }

    pub(crate) async fn orders(&self) -> Result<(i64, Vec<Order>), sqlx::Error> {
        let count = sqlx::query_scalar("SELECT COUNT(*) FROM orders")
            .fetch_one(&self.pool)
            .await?;
        let latest: Vec<_> =
            sqlx::query_as("SELECT id, sku, fence FROM orders ORDER BY place DESC LIMIT 100")
                .fetch_all(&self.pool)
                .await?;
        let latest = latest
            .into_iter()
            .map(|(id, sku, fence)| Order { id, sku, fence });
        Ok((count, latest.collect()))
    }
}

/// Converts an error of `verify`: to `TooLate` if the lease is over, otherwise to an error of the
/// database.
fn over_or_broken(error: sqlx::Error) -> ApiError {
    let code = error
        .as_database_error()
        .and_then(sqlx::error::DatabaseError::code);
    if code.as_deref() == Some(LEASE_OVER) {
        ApiError::TooLate
    } else {
        error.into()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use leasehold::{LockGuard, LockPool};
    use leasehold_tests::{postgres, wait};

    use super::*;

    const LONG: Duration = Duration::from_mins(1);

    async fn take(pool: &LockPool, ttl: Duration) -> LockGuard {
        let request = pool.lock("item:cup").ttl(ttl).wait(LONG);
        request.acquire().await.expect("it comes free")
    }

    /// Fails if a sale is written under an expired lease.
    #[tokio::test]
    async fn a_late_buyer_sells_nothing() {
        let database = postgres::Postgres::shared().migrated();
        let pool = wait::connected(LockPool::builder().url(database.url())).await;
        let db = Postgres::open(&database.url(), &[("cup".to_owned(), 3)]).await;
        let db = db.expect("the server answers");
        let late = take(&pool, Duration::from_millis(100)).await;
        late.lost().await;
        let next = take(&pool, LONG).await;
        let sold = db.sell("cup", "late", &late.handle()).await;
        assert!(matches!(sold, Err(ApiError::TooLate)), "{sold:?}");
        let sold = db.sell("cup", "next", &next.handle()).await;
        sold.expect("it holds the lock");
        let cup = db.item("cup").await.expect("the server answers");
        assert_eq!(cup.map(|cup| cup.stock), Some(2));
        let (count, _) = db.orders().await.expect("the server answers");
        assert_eq!(count, 1);
    }
}
