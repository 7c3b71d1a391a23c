//! `leasehold release`: takes a lock away from its holder.

use std::io::{self, Write as _};
use std::time::SystemTime;

use leasehold::{LockInfo, LockPool};
use serde_json::json;

use super::{text, to_json, with_place};
use crate::args::{Release, Store};
use crate::exit;
use crate::failure::Failure;
use crate::output;

/// Takes a lock away from its holders, after confirmation. The exit code shows if the lock was
/// held.
pub(crate) async fn release(store: &Store, options: &Release, json: bool) -> Result<u8, Failure> {
    let pool = store.connect().await?;
    let key = options.key.as_str();
    if !options.yes {
        let lock = pool.inspect(key).await?;
        if !lock.is_taken() {
            return Ok(free(&pool, key, json));
        }
        if !agrees(&lock) {
            return Err(Failure::new(
                exit::NO,
                format!("the lock `{}` was not released", text::plain(key)),
            ));
        }
    }
    let Some(was) = pool.force_release(key).await? else {
        return Ok(free(&pool, key, json));
    };
    if json {
        let answer = json!({ "key": key, "released": true, "was": to_json(&was) });
        output::line(&with_place(answer, &pool));
    } else {
        output::line(&format_args!("released {}", sentence(&was)));
    }
    Ok(exit::SUCCESS)
}

/// Reports that the lock is free.
fn free(pool: &LockPool, key: &str, json: bool) -> u8 {
    if json {
        let answer = json!({ "key": key, "released": false, "was": null });
        output::line(&with_place(answer, pool));
    } else {
        let (key, place) = (text::plain(key), text::place(pool));
        output::note(&format_args!("leasehold: the lock `{key}` is free {place}"));
    }
    exit::NO
}

/// Asks the user on standard error, so that standard output contains only the result. A missing
/// answer counts as a no.
fn agrees(lock: &LockInfo) -> bool {
    let question = format!(
        "Take away {}?\nUnfinished work may be cut short, and requests already sent may still take \
         effect. [y/N] ",
        sentence(lock)
    );
    let mut error = io::stderr();
    if write!(error, "{question}")
        .and_then(|()| error.flush())
        .is_err()
    {
        return false;
    }
    let mut answer = String::new();
    let read = io::stdin().read_line(&mut answer);
    read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes" | "Yes")
}

/// Describes the lock and its holders.
fn sentence(lock: &LockInfo) -> String {
    let now = SystemTime::now();
    let holders = lock.holders.iter().map(|holder| {
        let name = text::holder(holder);
        match text::since(holder.since, now) {
            Some(since) => format!("{name} for {}", text::span(since)),
            None => name,
        }
    });
    let holders: Vec<String> = holders.collect();
    let key = text::plain(&lock.key);
    if holders.is_empty() {
        format!("`{key}`, which no process holds: {}", text::kind(lock))
    } else {
        format!("`{key}`, held by {}", holders.join(" and by "))
    }
}
