//! The calls of SQL functions about kept results (`replay`) and about adopted locks (handovers).
//! Each request is a separate call.

use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Row};

use super::failure::Problem;
use super::functions::{Function, Functions};
use super::rows::{acquired, held};
use super::values::millis;
use crate::base::token::Token;
use crate::owner::Owner;
use crate::store::kept::Kept;
use crate::store::{Give, GiveKind, Op, Reply, Take, TakeKind};

/// True if `op` is about a kept result or an adopted lock.
pub(super) fn concern(op: &Op) -> bool {
    match op {
        Op::Take(take) => take.kind == TakeKind::Recall,
        Op::Give(give) => matches!(give.kind, GiveKind::Record(_)),
        Op::Forget { .. } | Op::Adopt { .. } => true,
        Op::TakeAll { .. } | Op::Keep { .. } | Op::Leave { .. } => false,
    }
}

/// Calls the SQL function that carries out `op`.
pub(super) async fn run(
    client: &Client,
    functions: &Functions,
    op: &Op,
    process: Token,
) -> Result<Vec<Row>, Error> {
    match op {
        Op::Take(Take {
            key,
            token,
            ttl,
            function,
            queue,
            ..
        }) => {
            let (ttl, owner) = (millis(*ttl), Owner::written(function));
            let arguments: [&(dyn ToSql + Sync); 7] =
                [&process, key, token, &ttl, queue, &owner, function];
            functions.call(client, Function::Recall, &arguments).await
        }
        Op::Give(Give {
            key,
            token,
            keep,
            kind: GiveKind::Record(record),
            ..
        }) => {
            let (keep, text) = (keep.map(millis), record.kept.to_text());
            let stays = i64::try_from(record.stays.as_millis()).unwrap_or(i64::MAX);
            let arguments: [&(dyn ToSql + Sync); 6] =
                [key, token, &keep, &text, &stays, &record.function];
            functions.call(client, Function::Record, &arguments).await
        }
        Op::Forget { key } => functions.call(client, Function::Forget, &[key]).await,
        Op::Adopt {
            key,
            from,
            token,
            ttl,
            function,
        } => {
            let (ttl, owner) = (millis(*ttl), Owner::written(function));
            let arguments: [&(dyn ToSql + Sync); 6] = [&process, key, from, token, &ttl, &owner];
            functions.call(client, Function::Adopt, &arguments).await
        }
        _ => Ok(Vec::new()),
    }
}

/// Reads the row that answers `op`.
pub(super) fn read(op: &Op, ordered: bool, listens: bool, row: &Row) -> Result<Reply, Problem> {
    Ok(match op {
        Op::Take(Take { queue, .. }) => match row.try_get::<_, Option<&str>>("result")? {
            Some(text) => {
                let kept = Kept::parse(text).ok_or(Problem::Result)?;
                Reply::Recalled(kept.into())
            }
            None if row.try_get("taken")? => acquired(row)?,
            None => held(row, *queue && listens)?,
        },
        Op::Forget { .. } => Reply::Forgotten(row.try_get("had")?),
        Op::Adopt { .. } if row.try_get("taken")? => acquired(row)?,
        Op::Adopt { .. } if row.try_get("pinned")? => Reply::Held {
            left: None,
            queued: false,
            owner: None,
        },
        Op::Adopt { .. } => Reply::Gone,
        _ => Reply::Released {
            found: row.try_get("had")?,
            ordered,
        },
    })
}
