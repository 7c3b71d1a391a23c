//! Reads the server's answers to the scripts.

use std::sync::Arc;
use std::time::Duration;

use redis::{PushInfo, Value};

use super::failure::{garbage, hidden_code, server_error};
use crate::base::digits::hexadecimal;
use crate::base::one_or_many::OneOrMany;
use crate::fence::Fence;
use crate::owner::Owner;
use crate::store::kept::Kept;
use crate::store::{Failure, Give, GiveKind, Op, Reply, StoreEvent, Take, TakeKind};

/// Kind of the scripts whose answers are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scripts {
    /// Scripts of a store that gives every lock a fence.
    Fenced,
    /// Plain scripts on a node of a quorum. They return `1` for a taken lock, without a fence.
    Plain,
}

/// Reads the reply to `op`, which was sent without a batch.
pub(crate) fn read(op: &Op, value: Value, scripts: Scripts) -> Result<Reply, Failure> {
    let replies = read_all(&[op], value, scripts);
    let reply = replies.into_iter().next();
    reply.unwrap_or_else(|| Err(garbage("an unexpected reply")))
}

/// Replies to the requests of a batch.
pub(crate) type Replies = OneOrMany<Result<Reply, Failure>>;

/// Reads the replies to `ops`, which were sent as one batch. A reply without a fence is accepted
/// from [`Scripts::Plain`] only.
pub(crate) fn read_all(ops: &[&Op], value: Value, scripts: Scripts) -> Replies {
    let shapeless = || Err(garbage("an unexpected reply"));
    match (ops, value) {
        (_, Value::ServerError(error)) => {
            let failure = server_error(error.code(), error.details());
            ops.iter().map(|_| Err(failure.clone())).collect()
        }
        // A single value answers all requests of the batch. It is the common fence if all requested
        // locks were free, or `1` if all released locks had their tokens. Otherwise, the answer is
        // a list.
        ([first, ..], all @ (Value::BulkString(_) | Value::Int(_))) if is_batched(first) => ops
            .iter()
            .map(|op| read_one(op, &all, scripts).unwrap_or_else(shapeless))
            .collect(),
        ([first, ..], Value::Array(answers)) if is_batched(first) && answers.len() == ops.len() => {
            let each = ops.iter().zip(answers);
            each.map(|(op, answer)| read_one(op, &answer, scripts).unwrap_or_else(shapeless))
                .collect()
        }
        ([op], value) if !is_batched(op) => {
            Replies::One(read_one(op, &value, scripts).unwrap_or_else(shapeless))
        }
        _ => ops.iter().map(|_| shapeless()).collect(),
    }
}

/// True if the script for `op` can serve several requests, and returns one answer for each.
fn is_batched(op: &Op) -> bool {
    match op {
        Op::Take(take) => matches!(take.kind, TakeKind::Lock { .. }),
        Op::Give(give) => matches!(give.kind, GiveKind::Lock),
        _ => false,
    }
}

/// True if the server refused a script, perhaps because the user may not use one of its keys. The
/// requests of the batch must then be sent again individually, so that each gets its own answer.
pub(crate) fn may_concern_one_key(answer: &Value) -> bool {
    matches!(answer, Value::ServerError(error)
        if hidden_code(error.code(), error.details().unwrap_or_default()) == "NOPERM")
}

fn read_one(op: &Op, value: &Value, scripts: Scripts) -> Option<Result<Reply, Failure>> {
    if let Some([code, error]) = array(value)
        && integer(code) == Some(-1)
    {
        return Some(Err(refused(text(error)?)));
    }
    let reply = match (op, value) {
        (Op::Take(take), value) => return taken(take, value, scripts),
        (Op::Adopt { .. }, value) => adopted(value),
        (Op::Forget { .. }, value) => Some(Reply::Forgotten(integer(value)? > 0)),
        (Op::TakeAll { keys, .. }, value) => acquired_all(value, keys.len()),
        (Op::Keep { renewals, .. }, value) => return renewed(value, renewals.len()),
        (Op::Give(Give { kind, .. }), value) => match kind {
            GiveKind::Record(_) => return recorded(value),
            GiveKind::Lock | GiveKind::Share => released(value),
        },
        (Op::Leave { .. }, value) => integer(value).map(|_| Reply::Left),
    };
    reply.map(Ok)
}

fn taken(take: &Take, value: &Value, scripts: Scripts) -> Option<Result<Reply, Failure>> {
    let reply = match (take.kind, value) {
        (TakeKind::Recall, value) => return recalled(value),
        (TakeKind::Lock { .. }, Value::Int(1)) if scripts == Scripts::Plain => {
            Some(Reply::Acquired {
                fence: None,
                reserved_fences: 0,
                wanted: None,
            })
        }
        (TakeKind::Lock { reserved_fences }, fence @ Value::BulkString(_)) => {
            free(fence, reserved_fences)
        }
        (TakeKind::Lock { .. } | TakeKind::Share { .. }, value) => acquired(value),
    };
    reply.map(Ok)
}

/// Reads the server's error in a script's answer for one lock.
fn refused(error: &str) -> Failure {
    let (code, details) = error.split_once(' ').unwrap_or((error, ""));
    let is_code = !code.is_empty() && code.bytes().all(|b| b.is_ascii_uppercase());
    if is_code {
        server_error(code, Some(details))
    } else {
        server_error("ERR", Some(error))
    }
}

/// Reads the fence of a lock that was free and had no queue. The script has then also reserved all
/// requested fences, without returning their number.
fn free(fence: &Value, reserved_fences: u32) -> Option<Reply> {
    Some(Reply::Acquired {
        fence: Some(Fence::new(u64::try_from(integer(fence)?).ok()?)),
        reserved_fences,
        wanted: Some(false),
    })
}

fn acquired(value: &Value) -> Option<Reply> {
    match array(value)? {
        [code, fence, reserved_fences, waiting] if integer(code)? == 1 => Some(Reply::Acquired {
            fence: Some(Fence::new(u64::try_from(integer(fence)?).ok()?)),
            reserved_fences: u32::try_from(integer(reserved_fences)?).ok()?,
            wanted: Some(integer(waiting)? > 0),
        }),
        [code, left, queued, owner @ ..] if integer(code)? == 0 => Some(Reply::Held {
            // The script returns a negative time if the key has just expired, or has no ttl because
            // another library set it.
            left: u64::try_from(integer(left)?)
                .ok()
                .map(Duration::from_millis),
            queued: integer(queued)? == 1,
            owner: owner.first().and_then(self::owner),
        }),
        _ => None,
    }
}

fn acquired_all(value: &Value, count: usize) -> Option<Reply> {
    match array(value)? {
        [code, all] if integer(code)? == 1 => {
            let one = |one: &Value| match one {
                fence @ Value::BulkString(_) => free(fence, 0),
                again => acquired(again),
            };
            let all: Option<Vec<Reply>> = array(all)?.iter().map(one).collect();
            all.filter(|all| all.len() == count).map(Reply::AcquiredAll)
        }
        [code, number, left, owner @ ..] if integer(code)? == 0 => Some(Reply::HeldAmong {
            at: usize::try_from(integer(number)? - 1)
                .ok()
                .filter(|at| *at < count)?,
            left: u64::try_from(integer(left)?)
                .ok()
                .map(Duration::from_millis),
            owner: owner.first().and_then(self::owner),
        }),
        _ => None,
    }
}

/// Reads the owner of a lock, if one token has it alone.
fn owner(value: &Value) -> Option<Arc<Owner>> {
    Owner::read(text(value)?).map(Arc::new)
}

/// Reads the answer of `recall.lua`: a kept result, or else the outcome of taking the lock. The
/// outcome is a fence if the lock was free and had no queue. Otherwise, it is a list with one
/// element: the grant, the refusal or the server's error.
fn recalled(value: &Value) -> Option<Result<Reply, Failure>> {
    match (value, array(value)) {
        (fence @ Value::BulkString(_), _) => free(fence, 0).map(Ok),
        (_, Some([code, kept])) if integer(code) == Some(3) => {
            let kept = Kept::parse(text(kept)?)?;
            Some(Ok(Reply::Recalled(Arc::new(kept))))
        }
        (_, Some([one])) => individually(one, acquired),
        _ => None,
    }
}

/// Reads the answer of `record.lua`: a number if the lock was simply removed or not found.
/// Otherwise, it is a list with one element: such a number, or the server's error.
fn recorded(value: &Value) -> Option<Result<Reply, Failure>> {
    match array(value) {
        Some([one]) => individually(one, released),
        _ => released(value).map(Ok),
    }
}

/// Reads one element of a list: the server's error for that lock, or an answer for `read`.
fn individually(one: &Value, read: fn(&Value) -> Option<Reply>) -> Option<Result<Reply, Failure>> {
    match array(one) {
        Some([code, error]) if integer(code) == Some(-1) => Some(Err(refused(text(error)?))),
        _ => read(one).map(Ok),
    }
}

fn adopted(value: &Value) -> Option<Reply> {
    match array(value)? {
        [code] if integer(code)? == 5 => Some(Reply::Gone),
        _ => acquired(value),
    }
}

/// Reads the outcome for each key. Returns the server's error if the server refused all keys.
fn renewed(value: &Value, count: usize) -> Option<Result<Reply, Failure>> {
    if *value == Value::Int(1) {
        return Some(Ok(Reply::Renewed(vec![true; count])));
    }
    let answers = array(value).filter(|answers| answers.len() == count)?;
    let mut kept = Vec::with_capacity(count);
    let mut error = None;
    for answer in answers {
        match array(answer) {
            Some([code, why]) if integer(code) == Some(-1) => {
                let why = text(why)?;
                error = error.or(Some(why));
                kept.push(None);
            }
            _ => kept.push(Some(integer(answer)? == 1)),
        }
    }
    Some(match error {
        None => Ok(Reply::Renewed(kept.into_iter().flatten().collect())),
        Some(error) if kept.iter().all(Option::is_none) => Err(refused(error)),
        Some(_) => Ok(Reply::RenewedInPart(kept)),
    })
}

fn released(value: &Value) -> Option<Reply> {
    Some(Reply::Released {
        found: integer(value)? == 1,
        ordered: false,
    })
}

fn array(value: &Value) -> Option<&[Value]> {
    match value {
        Value::Array(values) => Some(values),
        _ => None,
    }
}

fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::Int(number) => Some(*number),
        value => text(value)?.parse().ok(),
    }
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(text) => std::str::from_utf8(text).ok(),
        _ => None,
    }
}

/// Parses a message from this process's channel: a letter, and then a key. `t`: this process may
/// take the key. `w`: another process waits for the key. `r`: the lock was taken away by force;
/// between the letter and the key are 16 digits, one half of the lost lock's token.
pub(crate) fn message(push: &PushInfo) -> Option<StoreEvent> {
    let [_, Value::BulkString(text)] = &push.data[..] else {
        return None;
    };
    let (kind, key) = std::str::from_utf8(text).ok()?.split_at_checked(1)?;
    match kind {
        "t" => Some(StoreEvent::Turn(key.into())),
        "w" => Some(StoreEvent::Wanted(key.into())),
        "r" => {
            let (lease, key) = key.split_at_checked(16)?;
            Some(StoreEvent::Revoked {
                key: key.into(),
                lease: hexadecimal(lease)?,
            })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::token::Token;
    use crate::store::Renewal;

    /// Reads `answer` as the reply to a renewal of `count` shares.
    fn renewed(count: u32, answer: &str) -> Result<Reply, Failure> {
        let renewal = |number: u32| Renewal {
            key: number.to_string().into(),
            token: Token::fixed(number.into()),
            ttl: Duration::from_secs(1),
        };
        let answer = redis::parse_redis_value(answer.as_bytes());
        read(
            &Op::Keep {
                renewals: (0..count).map(renewal).collect(),
                shares: true,
            },
            answer.expect("it is an answer"),
            Scripts::Fenced,
        )
    }

    #[test]
    fn one_refused_share_does_not_affect_the_others() {
        let refused = "*2\r\n:-1\r\n$30\r\nOOM command not allowed when u\r\n";
        let reply = renewed(3, &format!("*3\r\n:1\r\n{refused}:0\r\n"));
        let kept = vec![Some(true), None, Some(false)];
        assert_eq!(reply.expect("some are known"), Reply::RenewedInPart(kept));
        for answer in [
            format!("*2\r\n{refused}{refused}"),
            format!("*1\r\n{refused}"),
        ] {
            let count = if answer.starts_with("*2") { 2 } else { 1 };
            let failure = renewed(count, &answer).expect_err("nothing is known");
            assert_eq!(failure.code(), "OOM");
        }
        let failure = renewed(2, "*1\r\n:1\r\n").expect_err("one too few");
        assert_eq!(failure.code(), "protocol");
    }

    /// The server refuses one of several renewals, with an unreadable text. Fails if this answer is
    /// left out of the outcomes: each later outcome would then count for the wrong lock.
    #[test]
    fn a_refusal_without_text_renews_nothing() {
        for refused in [Value::BulkString(vec![b'E', 0xff]), Value::Int(1)] {
            let refused = Value::Array(vec![Value::Int(-1), refused]);
            for answers in [vec![refused.clone()], vec![refused, Value::Int(1)]] {
                let renewal = Renewal {
                    key: "k".into(),
                    token: Token::fixed(1),
                    ttl: Duration::from_secs(1),
                };
                let op = Op::Keep {
                    renewals: vec![renewal; answers.len()],
                    shares: false,
                };
                let failure = read(&op, Value::Array(answers), Scripts::Fenced);
                assert_eq!(failure.expect_err("no answer").code(), "protocol");
            }
        }
    }
}
