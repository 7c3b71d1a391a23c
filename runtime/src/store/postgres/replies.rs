//! What the rows of an answer mean.

use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::{Error, Row};

use super::results;
use crate::fence::Fence;
use crate::inspect::owner::Owner;
use crate::store::{Op, Reply};

/// Reads the rows of one request.
pub(super) fn read(
    op: &Op,
    ordered: bool,
    listens: bool,
    rows: &mut std::slice::Iter<'_, Row>,
) -> Result<Reply, Problem> {
    let mut next = || rows.next().ok_or(Problem::TooFewRows);
    Ok(match op {
        Op::Acquire { queue, .. } => {
            let row = next()?;
            if row.try_get("taken")? {
                acquired(row)?
            } else {
                held(row, *queue && listens)?
            }
        }
        Op::Join { queue, .. } => {
            let row = next()?;
            if row.try_get("taken")? {
                acquired(row)?
            } else if let Some(limit) = row.try_get::<_, Option<i32>>("number")? {
                Reply::Limited(limit.unsigned_abs())
            } else {
                held(row, *queue && listens)?
            }
        }
        Op::Renew(renewals) | Op::Stay(renewals) => {
            let kept = renewals.iter().map(|_| Ok(next()?.try_get("taken")?));
            Reply::Renewed(kept.collect::<Result<_, Problem>>()?)
        }
        Op::AcquireAll { keys, .. } => {
            let first = next()?;
            if let Some(at) = first.try_get::<_, Option<i32>>("refused")? {
                return Ok(Reply::HeldAmong {
                    at: usize::try_from(at).unwrap_or_default(),
                    left: left(first)?,
                    owner: owner(first)?,
                });
            }
            let rest = keys[1..].iter().map(|_| acquired(next()?));
            let rest = rest.collect::<Result<Vec<_>, Problem>>()?;
            Reply::AcquiredAll([acquired(first)?].into_iter().chain(rest).collect())
        }
        Op::Release { .. } | Op::Part { .. } => Reply::Released {
            found: next()?.try_get("had")?,
            ordered,
        },
        Op::Leave { .. } => {
            next()?;
            Reply::Left
        }
        Op::Recall { .. } | Op::Record { .. } | Op::Forget { .. } | Op::Adopt { .. } => {
            results::read(op, ordered, listens, next()?)?
        }
    })
}

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
        // Without a time there was no row: a sweep removed it, so the call is in no queue.
        queued: queued && left.is_some(),
        owner: owner(row)?,
    })
}

/// The owner of a lock that one token has alone.
fn owner(row: &Row) -> Result<Option<Arc<Owner>>, Problem> {
    let owner: Option<&str> = row.try_get("holder")?;
    Ok(owner.and_then(Owner::read).map(Arc::new))
}

fn left(row: &Row) -> Result<Option<Duration>, Problem> {
    let millis: Option<i64> = row.try_get("left_ms")?;
    Ok(millis.map(|millis| Duration::from_millis(millis.unsigned_abs())))
}

/// Why an answer cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum Problem {
    #[error("fewer rows than requests")]
    TooFewRows,
    #[error("a result of another form")]
    Result,
    #[error(transparent)]
    Value(#[from] Error),
}
