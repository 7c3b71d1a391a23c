//! Looks, when a pool connects, for what would go wrong later: tries the scripts on a key of our own, and reads
//! what the server says of itself. What it finds is a warning: the server may be mended while the program runs.

use std::sync::Arc;
use std::time::Duration;

use redis::{Pipeline, Value, cmd};

use super::names::Names;
use super::server::{Link, Server};
use super::{reply, scripts};
use crate::store::{Op, Renewal};
use crate::token::{Nonce, Token};

/// Until then the key has expired should its removal not be permitted.
const TTL: Duration = Duration::from_secs(1);

/// Warns of all that is found. Without an answer there is nothing to say: the first call will tell.
pub(super) async fn examine(link: &mut Link, server: &Server, names: &Names, limit: Duration) {
    let ops = trial(names);
    let mut pipeline = Pipeline::new();
    for op in &ops {
        pipeline.add_command(scripts::command(op, names, true));
    }
    pipeline.add_command(cmd("INFO"));
    let answers = link
        .connection
        .send_packed_commands(&pipeline, 0, ops.len() + 1);
    let Ok(Ok(mut answers)) = tokio::time::timeout(limit, answers).await else {
        return;
    };
    if let Some(warning) = answers
        .pop()
        .as_ref()
        .and_then(text)
        .and_then(|info| eviction(&info))
    {
        tracing::warn!(%server, "{warning}");
    }
    for (op, answer) in ops.iter().zip(answers) {
        if let Err(failure) = reply::read(op, answer) {
            tracing::warn!(%server, error = %failure.error, "locks will not work on this server");
            return;
        }
    }
}

/// A lock's whole life.
fn trial(names: &Names) -> [Op; 4] {
    let token = Token::random(Nonce::new());
    let key: Arc<str> = names.trial(token).into();
    [
        Op::Acquire {
            key: Arc::clone(&key),
            token,
            ttl: TTL,
            owner: "check".into(),
            queue: false,
            spare: 0,
        },
        Op::Renew(vec![Renewal {
            key: Arc::clone(&key),
            token,
            ttl: TTL,
        }]),
        Op::Release {
            keep: None,
            key: Arc::clone(&key),
            token,
            after: Vec::new(),
        },
        Op::Leave { key },
    ]
}

fn text(info: &Value) -> Option<String> {
    match info {
        Value::BulkString(text) => String::from_utf8(text.clone()).ok(),
        Value::VerbatimString { text, .. } | Value::SimpleString(text) => Some(text.clone()),
        _ => None,
    }
}

/// What is wrong with the eviction policy: every lock has a ttl, so all but one can drop locks that are held.
fn eviction(info: &str) -> Option<String> {
    let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name));
    let limited = field("maxmemory:").is_some_and(|limit| limit.trim() != "0");
    let policy = field("maxmemory_policy:")?.trim();
    (limited && policy != "noeviction").then(|| {
        format!(
            "the server's maxmemory-policy is {policy}, which drops locks that are held when memory is full; set it to noeviction"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::eviction;

    #[test]
    fn only_a_policy_that_can_drop_locks_is_told() {
        let info = |limit: u64, policy: &str| {
            format!("# Memory\r\nmaxmemory:{limit}\r\nmaxmemory_policy:{policy}\r\n")
        };
        assert_eq!(eviction(&info(0, "allkeys-lru")), None);
        assert_eq!(eviction(&info(100, "noeviction")), None);
        assert_eq!(eviction(""), None);
        let told = eviction(&info(100, "volatile-ttl")).expect("it drops locks");
        assert!(told.contains("volatile-ttl"), "{told}");
    }
}
