//! Sales from the stock, which is never oversold.

use std::sync::atomic::{AtomicU64, Ordering};

use leasehold::{LockError, distributed_lock};

use crate::db::{Db, Item, Order};
use crate::error::ApiError;

/// Sells one item: reads the stock, and records the sale together with the new stock.
///
/// Buyers of one item, in all processes, queue here for up to five seconds. The lease could still
/// end while this process is paused, for example on a suspended machine. If another buyer has
/// bought meanwhile, the database refuses the late write. SQLite detects the late write by the
/// fence in the row, PostgreSQL by `leasehold.verify` in the transaction. See `db/sqlite.rs` and
/// `db/postgres.rs`.
#[distributed_lock(key = "item:<sku>", ttl = "5s", wait = "5s", guard = lock, on_error = too_busy)]
pub(crate) async fn sell_one(db: &Db, sku: &str, order_id: &str) -> Result<Order, ApiError> {
    look(db, sku).await?;
    db.sell(sku, order_id, &lock).await
}

/// Returns the item, if there is one left. Outside the lock, the result may be out of date.
pub(crate) async fn look(db: &Db, sku: &str) -> Result<Item, ApiError> {
    match db.item(sku).await? {
        None => Err(ApiError::NoSuchItem(sku.to_owned())),
        Some(item) if item.stock <= 0 => Err(ApiError::SoldOut(sku.to_owned())),
        Some(item) => Ok(item),
    }
}

/// Converts an error of the item's lock. If other buyers have the lock, the answer is "try again".
/// This differs from a held lock of an order, which is answered with 409, because the same order is
/// already being made.
fn too_busy<T>(error: LockError) -> Result<T, ApiError> {
    if error.is_contention() {
        Err(ApiError::Busy)
    } else {
        Err(error.into())
    }
}

/// Returns an id for a sale without an id from the client.
pub(crate) fn cash_sale_id() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    format!(
        "cash-{}-{}-{}",
        now.as_micros(),
        std::process::id(),
        COUNT.fetch_add(1, Ordering::Relaxed)
    )
}
