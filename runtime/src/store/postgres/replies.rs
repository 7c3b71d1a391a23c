//! Reads the rows of an answer.

use tokio_postgres::Row;

use super::failure::Problem;
use super::results;
use super::rows::{acquired, held, left, owner};
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
        op if results::concern(op) => results::read(op, ordered, listens, next()?)?,
        Op::Take(take) => {
            let row = next()?;
            if row.try_get("taken")? {
                acquired(row)?
            } else {
                held(row, take.queue && listens)?
            }
        }
        Op::Keep { renewals, .. } => {
            let kept = renewals.iter().map(|_| Ok(next()?.try_get("taken")?));
            let kept = kept.collect::<Result<Vec<Option<bool>>, Problem>>()?;
            match kept.iter().copied().collect() {
                Some(kept) => Reply::Renewed(kept),
                None => Reply::RenewedInPart(kept),
            }
        }
        Op::TakeAll { keys, .. } => {
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
        Op::Leave { .. } => {
            had(next()?)?;
            Reply::Left
        }
        _ => Reply::Released {
            found: had(next()?)?,
            ordered,
        },
    })
}

/// True if the token had the lock. Fails if the SQL function skipped the lock's row, because
/// another transaction has locked it.
fn had(row: &Row) -> Result<bool, Problem> {
    row.try_get::<_, Option<bool>>("had")?
        .ok_or(Problem::Locked)
}
