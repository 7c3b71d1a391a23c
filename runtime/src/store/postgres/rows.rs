//! Reads the columns of a row.

use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::Row;

use super::failure::Problem;
use crate::fence::Fence;
use crate::owner::Owner;
use crate::store::Reply;

pub(super) fn acquired(row: &Row) -> Result<Reply, Problem> {
    let fence: i64 = row.try_get("fence")?;
    let reserved: Option<i32> = row.try_get("number")?;
    Ok(Reply::Acquired {
        fence: Some(Fence::new(fence.unsigned_abs())),
        reserved_fences: reserved.unwrap_or_default().unsigned_abs(),
        wanted: row.try_get("wanted")?,
    })
}

pub(super) fn held(row: &Row, queued: bool) -> Result<Reply, Problem> {
    let left = left(row)?;
    Ok(Reply::Held {
        left,
        // `left` is the rest of the lease. If it is missing, the SQL function found no row of the
        // key: the row was removed as idle, or another transaction has locked it. So this process
        // is in no queue.
        queued: queued && left.is_some(),
        owner: owner(row)?,
    })
}

/// Returns the owner of an exclusive lock, or of the transaction that pins the lock.
pub(super) fn owner(row: &Row) -> Result<Option<Arc<Owner>>, Problem> {
    let owner: Option<&str> = row.try_get("holder")?;
    Ok(owner.and_then(Owner::read).map(Arc::new))
}

pub(super) fn left(row: &Row) -> Result<Option<Duration>, Problem> {
    let millis: Option<i64> = row.try_get("left_ms")?;
    Ok(millis.map(|millis| Duration::from_millis(millis.unsigned_abs())))
}
