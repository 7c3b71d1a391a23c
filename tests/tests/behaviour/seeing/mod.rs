//! What is seen of locks, and taking them away by force.

mod deployments;
mod forced;
mod foreign;
mod inspected;
mod left_behind;
mod listed;
mod odd_nodes;
mod refused;
mod session_servers;

use std::time::{Duration, SystemTime};

use leasehold::{Holder, LockError, LockInfo, LockPool, Owner, distributed_lock};
use leasehold_tests::stores::Store;
use tokio::sync::oneshot;

const TTL: Duration = Duration::from_secs(20);

/// For what comes within far less.
const LONG: Duration = Duration::from_secs(30);

/// How far the clocks of this machine's processes may be apart, and a time be rounded.
const ROUNDED: Duration = Duration::from_millis(20);

/// Looks at a lock until it is as expected.
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

/// This process, in a call by hand.
#[track_caller]
fn is_here(owner: Option<&Owner>, function: &str) {
    let owner = owner.expect("its owner is known");
    assert_eq!(owner.pid, std::process::id());
    assert!(!owner.host.is_empty());
    assert_eq!(owner.function, function, "{owner}");
}

/// A holder of this process with the whole ttl before it, which began after `begun`.
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

/// How much longer than a lock's ttl its session lasts at most.
const BEYOND: Duration = Duration::from_secs(2);

/// The same on any store. Servers with sessions do not tell since when a lock is held, and etcd
/// tells the rest of the session.
#[track_caller]
fn shows(store: &Store, holder: &Holder, function: &str, begun: SystemTime) {
    if !store.has_sessions() {
        return holds(holder, function, begun);
    }
    is_here(holder.owner.as_ref(), function);
    assert!(!holder.foreign && !holder.revoked);
    assert_eq!(holder.since, None);
    match holder.expires_in {
        None => assert!(!store.tells_ends()),
        Some(left) => assert!(left <= TTL + BEYOND && TTL / 2 < left, "{left:?}"),
    }
}

/// What a store keeps of the function `holder`.
const HOLDER: &str = concat!(module_path!(), "::holder");

#[distributed_lock(key = "k", ttl = "20s", pool = pool)]
async fn holder(
    pool: &LockPool,
    entered: oneshot::Sender<()>,
    leave: oneshot::Receiver<()>,
) -> Result<(), LockError> {
    entered.send(()).expect("the test waits");
    leave.await.expect("the test tells when");
    Ok(())
}

/// Runs `test` while `holder` has the lock `k` in a pool of its own.
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
