//! The demonstration's table of orders. It has no unique key on purpose, so that double orders can
//! be shown.

use leasehold::Fence;
use serde::{Deserialize, Serialize};
use sqlx::Row as _;

use crate::db::Db;

/// Beginning of the ids of the demonstration's orders.
pub(crate) const PREFIX: &str = "demo-";

#[derive(Debug, Clone)]
pub(crate) struct Ledger {
    db: Db,
}

/// One row of the table.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct DemoOrder {
    id: String,
    service: String,
    fence: Option<i64>,
}

/// Number of times that an order was written, and that the payment provider was called for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Count {
    pub(crate) orders: i64,
    pub(crate) charges: i64,
}

/// Judgement of a [`Count`]. The name of the variant is also the CSS class of the round on the
/// page.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    /// One order and one charge.
    Right,
    /// No order and no charge.
    Unsold,
    /// All other counts.
    Wrong,
}

impl Count {
    pub(crate) fn outcome(self) -> Outcome {
        match (self.orders, self.charges) {
            (1, 1) => Outcome::Right,
            (0, 0) => Outcome::Unsold,
            _ => Outcome::Wrong,
        }
    }
}

impl DemoOrder {
    /// Returns the service that made the order.
    pub(crate) fn service(&self) -> &str {
        &self.service
    }
}

impl Ledger {
    pub(crate) fn new(db: Db) -> Self {
        Self { db }
    }

    /// Deletes the orders of earlier demonstrations from this database.
    pub(crate) async fn clear(&self) -> Result<(), sqlx::Error> {
        let pool = self.db.file();
        sqlx::query("DELETE FROM demo_orders").execute(pool).await?;
        sqlx::query("DELETE FROM payments WHERE order_id LIKE ? || '%'")
            .bind(PREFIX)
            .execute(pool)
            .await?;
        Ok(())
    }

    /// Returns the first row with this id.
    pub(crate) async fn first(&self, id: &str) -> Result<Option<DemoOrder>, sqlx::Error> {
        let row = sqlx::query("SELECT service, fence FROM demo_orders WHERE id = ? ORDER BY rowid")
            .bind(id)
            .fetch_optional(self.db.file())
            .await?;
        let Some(row) = row else { return Ok(None) };
        Ok(Some(DemoOrder {
            id: id.to_owned(),
            service: row.try_get("service")?,
            fence: row.try_get("fence")?,
        }))
    }

    /// Writes a row, even if one exists already.
    pub(crate) async fn write(
        &self,
        id: &str,
        service: &str,
        fence: Option<Fence>,
    ) -> Result<DemoOrder, sqlx::Error> {
        let fence = fence.map(Fence::as_i64);
        sqlx::query("INSERT INTO demo_orders (id, service, fence) VALUES (?, ?, ?)")
            .bind(id)
            .bind(service)
            .bind(fence)
            .execute(self.db.file())
            .await?;
        Ok(DemoOrder {
            id: id.to_owned(),
            service: service.to_owned(),
            fence,
        })
    }

    pub(crate) async fn count(&self, id: &str) -> Result<Count, sqlx::Error> {
        let rows = "SELECT (SELECT COUNT(*) FROM demo_orders WHERE id = ?1) AS orders,
                           (SELECT COUNT(*) FROM payments WHERE order_id = ?1) AS charges";
        let row = sqlx::query(rows).bind(id).fetch_one(self.db.file()).await?;
        Ok(Count {
            orders: row.try_get("orders")?,
            charges: row.try_get("charges")?,
        })
    }
}
