//! Commands that show locks, or take one away from its holder: `ls`, `show`, `watch`, `release`.

mod changes;
mod ls;
mod release;
mod screen;
mod show;
mod table;
mod text;
mod watch;

use leasehold::{LockInfo, LockPool};
use serde_json::{Value, json};

pub(crate) use self::ls::ls;
pub(crate) use self::release::release;
pub(crate) use self::show::show;
pub(crate) use self::watch::watch;
use crate::failure::Failure;

/// Converts a lock to JSON.
fn to_json(lock: &LockInfo) -> Value {
    serde_json::to_value(lock).unwrap_or_else(|error| json!({ "error": error.to_string() }))
}

/// Adds the namespace and the store to an answer in JSON.
fn with_place(mut answer: Value, pool: &LockPool) -> Value {
    let (store, namespace) = leasehold::__private::place(pool);
    answer["namespace"] = namespace.into();
    answer["store"] = store.into();
    answer
}

/// Returns all locks that match now, each once, sorted by key.
async fn all(pool: &LockPool, pattern: &str) -> Result<Vec<LockInfo>, Failure> {
    let (mut all, mut locks) = (Vec::new(), pool.locks(pattern));
    while let Some(lock) = locks.next().await {
        all.push(lock?);
    }
    sort(&mut all);
    Ok(all)
}

/// Sorts locks by key and removes duplicates: the pool may return a lock twice.
fn sort(locks: &mut Vec<LockInfo>) {
    locks.sort_by(|one, other| one.key.cmp(&other.key));
    locks.dedup_by(|one, other| one.key == other.key);
}
