//! Looks, when a pool connects, for what would go wrong later: tries the scripts on a key of our own, and reads
//! what the server says of itself. What it finds is a warning: the server may be mended while the program runs.

use std::sync::Arc;
use std::time::Duration;

use redis::Pipeline;

use super::info::Info;
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
    let answers = link
        .connection
        .send_packed_commands(&pipeline, 0, ops.len());
    let Ok(Ok(answers)) = tokio::time::timeout(limit, answers).await else {
        return;
    };
    if let Some(warning) = link.info.as_ref().and_then(eviction) {
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
            key: Arc::clone(&key),
            token,
            after: Vec::new(),
        },
        Op::Leave { key },
    ]
}

/// What is wrong with the eviction policy: every lock has a ttl, so all but one can drop locks that are held.
fn eviction(info: &Info) -> Option<String> {
    let limited = info.field("maxmemory").is_some_and(|limit| limit != "0");
    let policy = info.field("maxmemory_policy")?;
    (limited && policy != "noeviction").then(|| {
        format!(
            "the server's maxmemory-policy is {policy}, which drops locks that are held when memory is full; set it to noeviction"
        )
    })
}

#[cfg(test)]
mod tests {
    use redis::Value;

    use super::*;

    #[test]
    fn only_a_policy_that_can_drop_locks_is_told() {
        let info = |limit: u64, policy: &str| {
            let text = format!("# Memory\r\nmaxmemory:{limit}\r\nmaxmemory_policy:{policy}\r\n");
            Info::read(Some(&Value::BulkString(text.into()))).expect("a text")
        };
        assert_eq!(eviction(&info(0, "allkeys-lru")), None);
        assert_eq!(eviction(&info(100, "noeviction")), None);
        let told = eviction(&info(100, "volatile-ttl")).expect("it drops locks");
        assert!(told.contains("volatile-ttl"), "{told}");
    }
}
