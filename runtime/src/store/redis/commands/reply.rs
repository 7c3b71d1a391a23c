//! Reads what the server answers.

use std::time::Duration;

use redis::{ErrorKind, PushInfo, RedisError, Value};

use crate::error::{LockError, StoreError};
use crate::fence::Fence;
use crate::store::redis::acl;
use crate::store::redis::wire::guarded;
use crate::store::{Failure, Op, Reply, Retry, StoreEvent};

/// What to do about a node of a cluster that is used as if it were alone.
const OF_A_CLUSTER: &str = "the server is part of a cluster; one node alone cannot serve all keys, so write redis-cluster://host:port,… with some of its nodes";

/// What the server's error codes mean for us: the code, whether to try again, and what to do about it.
const CODES: &[(&str, Retry, &str)] = &[
    (
        "NOSCRIPT",
        Retry::Now,
        "the server has forgotten its scripts; they are loaded again",
    ),
    (
        "LOADING",
        Retry::Later,
        "the server is still loading its data; it will serve when that is done",
    ),
    (
        "BUSY",
        Retry::Later,
        "the server is busy with another client's script",
    ),
    (
        "TRYAGAIN",
        Retry::Later,
        "the cluster is moving this key's slot to another node; it will serve when that is done",
    ),
    (
        "CLUSTERDOWN",
        Retry::Later,
        "the cluster is down: a master is gone and no replica has taken over, or some slots have no node; look at CLUSTER INFO",
    ),
    (
        "MASTERDOWN",
        Retry::Later,
        "the replica has lost its master",
    ),
    (
        "READONLY",
        Retry::Later,
        "the server is a read-only replica; point the URL at the master",
    ),
    ("MOVED", Retry::Never, OF_A_CLUSTER),
    ("ASK", Retry::Never, OF_A_CLUSTER),
    ("CROSSSLOT", Retry::Never, OF_A_CLUSTER),
    (
        "OOM",
        Retry::Never,
        "the server's memory is full; raise its maxmemory or remove data",
    ),
    (
        "MISCONF",
        Retry::Never,
        "the server cannot write its snapshot and refuses writes; look at its log",
    ),
    (
        "NOREPLICAS",
        Retry::Never,
        "the server has too few replicas and refuses writes",
    ),
    (
        "NOAUTH",
        Retry::Never,
        "the server asks for a password; put it into the URL, redis://user:password@host/",
    ),
    (
        "WRONGPASS",
        Retry::Never,
        "the server refused the user or the password of the URL; correct them",
    ),
    // Its advice is that of `permissions`.
    ("NOPERM", Retry::Never, ""),
    (
        "WRONGTYPE",
        Retry::Never,
        "the key is in use for other data; choose another key or namespace",
    ),
    (
        "NOPROTO",
        Retry::Never,
        "the server does not speak the protocol asked for",
    ),
    ("EXECABORT", Retry::Never, "the server refused the request"),
];

/// Which scripts answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scripts {
    /// Those of a store that gives every lock a fence.
    Fenced,
    /// The plain ones of a quorum's node, which knows no fence and grants with a bare `1`.
    Plain,
}

/// The reply to `op`, which left alone, or why there is none.
pub(crate) fn read(op: &Op, value: Value, scripts: Scripts) -> Result<Reply, Failure> {
    let mut replies = read_all(&[op], value, scripts);
    replies
        .pop()
        .unwrap_or_else(|| Err(garbage("an answer of another shape")))
}

/// The replies to `ops`, which left together. A grant without a fence is believed of
/// [`Scripts::Plain`] only.
pub(crate) fn read_all(ops: &[&Op], value: Value, scripts: Scripts) -> Vec<Result<Reply, Failure>> {
    let shapeless = || Err(garbage("an answer of another shape"));
    match (ops, value) {
        (_, Value::ServerError(error)) => {
            let failure = server_error(error.code(), error.details());
            vec![Err(failure); ops.len()]
        }
        // The same for all: all were free, or there.
        (
            [Op::Acquire { .. } | Op::Release { .. }, ..],
            all @ (Value::BulkString(_) | Value::Int(_)),
        ) => ops
            .iter()
            .map(|op| read_one(op, &all, scripts).unwrap_or_else(shapeless))
            .collect(),
        ([Op::Acquire { .. } | Op::Release { .. }, ..], Value::Array(answers))
            if answers.len() == ops.len() =>
        {
            let each = ops.iter().zip(answers);
            each.map(|(op, answer)| read_one(op, &answer, scripts).unwrap_or_else(shapeless))
                .collect()
        }
        ([op], value) if !matches!(op, Op::Acquire { .. } | Op::Release { .. }) => {
            vec![read_one(op, &value, scripts).unwrap_or_else(shapeless)]
        }
        _ => vec![shapeless(); ops.len()],
    }
}

/// Whether a script was refused, perhaps for one key that the user may not touch and in which the others have no part. Asked again alone,
/// each is answered for itself.
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
        (Op::Acquire { .. }, Value::Int(1)) if scripts == Scripts::Plain => Some(Reply::Acquired {
            fence: None,
            reserved_fences: 0,
            wanted: None,
        }),
        (
            Op::Acquire {
                reserved_fences, ..
            },
            fence @ Value::BulkString(_),
        ) => free(fence, *reserved_fences),
        (Op::Acquire { .. } | Op::Join { .. }, value) => acquired(value),
        (Op::AcquireAll { keys, .. }, value) => acquired_all(value, keys.len()),
        (Op::Renew(renewals) | Op::Stay(renewals), value) => return renewed(value, renewals.len()),
        (Op::Release { .. } | Op::Part { .. }, value) => released(value),
        (Op::Leave { .. }, value) => integer(value).map(|_| Reply::Left),
    };
    reply.map(Ok)
}

/// What a script reports of a command that the server refused for one lock.
fn refused(error: &str) -> Failure {
    let (code, details) = error.split_once(' ').unwrap_or((error, ""));
    let is_code = !code.is_empty() && code.bytes().all(|b| b.is_ascii_uppercase());
    if is_code {
        server_error(code, Some(details))
    } else {
        server_error("ERR", Some(error))
    }
}

/// A lock that was free and that nobody waits for, with as many fences in reserve as were asked for.
fn free(fence: &Value, reserved_fences: u32) -> Option<Reply> {
    Some(Reply::Acquired {
        fence: Some(Fence::new(u64::try_from(integer(fence)?).ok()?)),
        reserved_fences,
        wanted: Some(false),
    })
}

fn acquired(value: &Value) -> Option<Reply> {
    match array(value)? {
        [taken, fence, reserved_fences, waiting] if integer(taken)? == 1 => Some(Reply::Acquired {
            fence: Some(Fence::new(u64::try_from(integer(fence)?).ok()?)),
            reserved_fences: u32::try_from(integer(reserved_fences)?).ok()?,
            wanted: Some(integer(waiting)? > 0),
        }),
        [taken, left, queued] if integer(taken)? == 0 => Some(Reply::Held {
            // Negative: another client's lock without a ttl, or one that expired in this moment.
            left: u64::try_from(integer(left)?)
                .ok()
                .map(Duration::from_millis),
            queued: integer(queued)? == 1,
        }),
        [taken, limit] if integer(taken)? == 2 => {
            Some(Reply::Limited(u32::try_from(integer(limit)?).ok()?))
        }
        _ => None,
    }
}

fn acquired_all(value: &Value, count: usize) -> Option<Reply> {
    match array(value)? {
        [taken, all] if integer(taken)? == 1 => {
            let one = |one: &Value| match one {
                fence @ Value::BulkString(_) => free(fence, 0),
                again => acquired(again),
            };
            let all: Option<Vec<Reply>> = array(all)?.iter().map(one).collect();
            all.filter(|all| all.len() == count).map(Reply::AcquiredAll)
        }
        [taken, place, left] if integer(taken)? == 0 => Some(Reply::HeldAmong {
            at: usize::try_from(integer(place)? - 1)
                .ok()
                .filter(|at| *at < count)?,
            left: u64::try_from(integer(left)?)
                .ok()
                .map(Duration::from_millis),
        }),
        _ => None,
    }
}

/// What is known of each. The server's error, if it refused all of them.
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
                error = error.or(text(why));
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

/// An error that the server answered with: it did not do what was asked.
fn server_error(code: &str, details: Option<&str>) -> Failure {
    let details = details.unwrap_or_default();
    let known = CODES
        .iter()
        .find(|(known, _, _)| *known == hidden_code(code, details));
    let (code, retry, advice) = match known {
        Some((code, retry, advice)) => (*code, *retry, *advice),
        None if details.contains("max number of clients") => (
            "maxclients",
            Retry::Later,
            "the server has as many clients as it allows; raise its maxclients",
        ),
        None if details.contains("DB index is out of range") => (
            "ERR",
            Retry::Never,
            "the server has no database of that number; change the end of the URL, or raise the server's `databases`",
        ),
        None => ("ERR", Retry::Never, "the server refused the request"),
    };
    let advice = match code {
        "NOPERM" => acl::advice(),
        _ => advice.to_owned(),
    };
    failure(
        code,
        format!("{advice} ({code}: {})", first_line(details)),
        retry,
        false,
    )
}

/// The error that a script met is reported inside another one by some versions.
fn hidden_code<'a>(code: &'a str, details: &str) -> &'a str {
    if code != "ERR" {
        return code;
    }
    if details.contains("can't run this command")
        || details.contains("No permissions")
        || details.contains("NOPERM")
    {
        "NOPERM"
    } else if details.contains("OOM ") {
        "OOM"
    } else if details.contains("WRONGTYPE ") {
        "WRONGTYPE"
    } else if details.contains("READONLY ") || details.contains("Write commands are not allowed") {
        "READONLY"
    } else if details.contains("MISCONF ") {
        "MISCONF"
    } else {
        code
    }
}

/// The server has forgotten its scripts, again and again.
pub(crate) fn forgotten() -> Failure {
    let failure = server_error("NOSCRIPT", Some("and the user may not send EVAL"));
    Failure {
        retry: Retry::Later,
        ..failure
    }
}

/// The connection broke or could not be made. A request that was under way may have been carried out.
pub(crate) fn broken(error: &RedisError) -> Failure {
    if let Some(what) = guarded::garbage_in(error) {
        return garbage(&what.to_string());
    }
    match error.kind() {
        ErrorKind::AuthenticationFailed => {
            let code = if error
                .detail()
                .is_some_and(|detail| detail.contains("NOAUTH"))
            {
                "NOAUTH"
            } else {
                "WRONGPASS"
            };
            server_error(code, error.detail())
        }
        ErrorKind::Server(_) | ErrorKind::Extension => {
            server_error(error.code().unwrap_or("ERR"), error.detail())
        }
        ErrorKind::Parse | ErrorKind::UnexpectedReturnType => {
            garbage("something that is not the Redis protocol")
        }
        _ if error.is_timeout() => failure(
            "timeout",
            "the server did not answer in time; check that it is up and reachable".to_owned(),
            Retry::Later,
            true,
        ),
        _ => disconnected(&error.to_string()),
    }
}

fn disconnected(error: &str) -> Failure {
    let error = first_line(error);
    let (code, text) = match handshake(&error) {
        Some(advice) => ("tls", format!("{advice} ({error})")),
        None => (
            "io",
            format!(
                "the connection failed: {error}; check that the server is up and the URL is right"
            ),
        ),
    };
    failure(code, text, Retry::Later, true)
}

/// What to do about a TLS connection that was refused by either side.
fn handshake(error: &str) -> Option<&'static str> {
    if error.contains("invalid peer certificate") {
        return Some(
            "the server's certificate is not trusted; give the pool its authority with `tls_ca`, and the URL the name in the certificate",
        );
    }
    if error.contains("received fatal alert") {
        return Some(
            "the server refused the TLS connection; if it asks for a client certificate, give the pool one with `tls_client`",
        );
    }
    let is_plain = error.contains("corrupt message") || error.contains("InvalidContentType");
    is_plain.then_some("the server does not speak TLS on this port; correct the port, or write redis:// for a connection in plain text")
}

pub(crate) fn garbage(what: &str) -> Failure {
    failure(
        "protocol",
        format!("the server answered with {what}; check that the URL names a Redis server"),
        Retry::Never,
        true,
    )
}

pub(crate) fn failure(
    code: &'static str,
    message: String,
    retry: Retry,
    executed: bool,
) -> Failure {
    Failure {
        error: LockError::Unavailable {
            source: StoreError::new(code, message),
        },
        retry,
        executed,
    }
}

/// What a server says is shown short and on one line.
fn first_line(text: &str) -> String {
    text.lines()
        .next()
        .unwrap_or_default()
        .chars()
        .take(120)
        .collect()
}

/// What a message to this process's channel says.
pub(crate) fn message(push: &PushInfo) -> Option<StoreEvent> {
    let [_, Value::BulkString(text)] = &push.data[..] else {
        return None;
    };
    let (kind, key) = std::str::from_utf8(text).ok()?.split_at_checked(1)?;
    match kind {
        "t" => Some(StoreEvent::Turn(key.into())),
        "w" => Some(StoreEvent::Wanted(key.into())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::token::Token;
    use crate::store::Renewal;

    /// The reply to a renewal of so many shares.
    fn renewed(count: u32, answer: &str) -> Result<Reply, Failure> {
        let renewal = |number: u32| Renewal {
            key: number.to_string().into(),
            token: Token::fixed(number.into()),
            ttl: Duration::from_secs(1),
        };
        let answer = redis::parse_redis_value(answer.as_bytes());
        read(
            &Op::Stay((0..count).map(renewal).collect()),
            answer.expect("it is an answer"),
            Scripts::Fenced,
        )
    }

    #[test]
    fn one_refused_share_leaves_the_others_as_they_are() {
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
}
