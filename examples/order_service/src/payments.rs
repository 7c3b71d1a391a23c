//! The payment provider, simulated by a pause and a table of its calls.
//!
//! The table has no unique key on purpose: it shows the number of calls. With a real provider, send
//! the order's id as the idempotency key.

use std::time::Duration;

use crate::db::Db;
use crate::error::ApiError;

#[derive(Debug, Clone)]
pub(crate) struct Payments {
    db: Db,
    delay: Duration,
}

impl Payments {
    pub(crate) fn new(db: Db, delay: Duration) -> Self {
        Self { db, delay }
    }

    /// Reserves the money. A real shop takes the money after the sale is recorded.
    pub(crate) async fn authorise(&self, order_id: &str) -> Result<(), ApiError> {
        tokio::time::sleep(self.delay).await;
        Ok(self.db.record_payment(order_id).await?)
    }
}
