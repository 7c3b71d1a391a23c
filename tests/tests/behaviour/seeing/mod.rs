//! Tests of inspecting locks, and of taking locks away by force.

mod deployments;
mod forced;
mod foreign;
mod inspected;
mod left_behind;
mod listed;
mod lost_answers;
mod odd_nodes;
mod refused;
mod reserved;
mod session_servers;

use std::time::{Duration, SystemTime};

use leasehold::{Holder, LockError, LockInfo, LockPool, Owner, distributed_lock};
use leasehold_tests::stores::Store;
use tokio::sync::oneshot;

const TTL: Duration = Duration::from_secs(20);

/// Time limit for events that usually come far sooner.
const LONG: Duration = Duration::from_secs(30);

/// Maximum difference between two processes' readings of this machine's clock, including rounding.
const ROUNDED: Duration = Duration::from_millis(20);

/// Inspects a lock repeatedly until it meets the condition.
async fn seen(pool: &LockPool, key: &str, is: impl Fn(&LockInfo) -> bool) -> LockInfo {
    let looking = async {
        loop {
            let lock = pool.inspect(key).await.expect("the store answers");
            if is(&lock) {
                return lock;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let seen = tokio::time::timeout(LONG, looking).await;
    seen.unwrap_or_else(|_| panic!("`{key}` is never seen so"))
}

/// Asserts that the owner is a call of `function` in this process. For a lock taken with the
/// builder, `function` is empty.
#[track_caller]
fn is_here(owner: Option<&Owner>, function: &str) {
    let owner = owner.expect("its owner is known");
    assert_eq!(owner.pid, std::process::id());
    assert!(!owner.host.is_empty());
    assert_eq!(owner.function, function, "{owner}");
}

/// Asserts that the holder is a call of `function` in this process, and got the lock after `begun`.
/// Also asserts that more than half of its ttl is left.
#[track_caller]
fn holds(holder: &Holder, function: &str, begun: SystemTime) {
    is_here(holder.owner.as_ref(), function);
    assert!(!holder.foreign && !holder.revoked);
    let since = holder.since.expect("it is known since when");
    assert!(begun - ROUNDED <= since, "{since:?} is before {begun:?}");
    assert!(since <= SystemTime::now() + ROUNDED, "{since:?}");
    let left = holder.expires_in.expect("it has an end");
    assert!(left <= TTL && TTL / 2 < left, "{left:?}");
}

/// Maximum time by which a session outlasts the ttl of its lock.
const BEYOND: Duration = Duration::from_secs(2);

/// Like `holds`, but for any store. Servers with sessions do not report the start of a lock. Etcd
/// reports the remaining time of the session instead of that of the lock.
#[track_caller]
fn shows(store: &Store, holder: &Holder, function: &str, begun: SystemTime) {
    if !store.has_sessions() {
        return holds(holder, function, begun);
    }
    is_here(holder.owner.as_ref(), function);
    assert!(!holder.foreign && !holder.revoked);
    assert_eq!(holder.since, None);
    match holder.expires_in {
        None => assert!(!store.reports_ends()),
        Some(left) => assert!(left <= TTL + BEYOND && TTL / 2 < left, "{left:?}"),
    }
}

/// The path of the function `holder`, as a store records it.
const HOLDER: &str = concat!(module_path!(), "::holder");

#[distributed_lock(key = "k", ttl = "20s", pool = pool)]
async fn holder(
    pool: &LockPool,
    entered: oneshot::Sender<()>,
    leave: oneshot::Receiver<()>,
) -> Result<(), LockError> {
    entered.send(()).expect("the test waits");
    leave.await.expect("the test is done when");
    Ok(())
}

/// Runs `test` while `holder` has the lock `k`. `test` gets the holder's pool and another pool.
async fn while_held(store: &Store, test: impl AsyncFnOnce(&LockPool, &LockPool)) {
    let (pool, other) = (store.pool().await, store.pool().await);
    let ((entered, inside), (leave, left)) = (oneshot::channel(), oneshot::channel());
    let caller = pool.clone();
    let call = tokio::spawn(async move { holder(&caller, entered, left).await });
    inside.await.expect("the body begins");
    test(&pool, &other).await;
    leave.send(()).expect("the body waits");
    call.await.expect("no panic").expect("held");
}
