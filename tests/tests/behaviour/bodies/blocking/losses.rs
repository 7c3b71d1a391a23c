//! Leases that are lost while a blocking body runs.

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use leasehold::{LockError, LockPool, distributed_lock};
use leasehold_tests::rerun::fails_with;
use leasehold_tests::stores::Store;
use leasehold_tests::{on_stores, wait};

use super::{HANG, LONG, Result, TTL, on_a_thread, value};

on_stores!(memory redis sentinel cluster redlock postgres etcd zookeeper: (
    a_lost_lease_drops_the_value,
    a_body_may_go_on,
    a_body_that_outlasts_its_lease_has_lost_it,
));

#[distributed_lock(key = "k", ttl = "20s", watchdog, wait = "50s", guard = lock, pool = pool)]
fn ends_after_the_loss(pool: &LockPool, begun: &Sender<()>, value: Arc<()>) -> Result<Arc<()>> {
    begun.send(()).expect("the test waits");
    wait::until("the loss", HANG, || lock.check().is_err());
    Ok(value)
}

#[distributed_lock(
    key = "k",
    ttl = "20s",
    watchdog,
    wait = "50s",
    on_lost = "continue",
    guard = lock,
    pool = pool
)]
fn goes_on(pool: &LockPool, begun: &Sender<()>, value: Arc<()>) -> Result<Arc<()>> {
    begun.send(()).expect("the test waits");
    wait::until("the loss", HANG, || lock.check().is_err());
    Ok(value)
}

type Call = fn(&LockPool, &Sender<()>, Arc<()>) -> Result<Arc<()>>;

/// Runs `call`, and takes its lock away while its body runs.
async fn lost(store: &Store, call: Call, value: Arc<()>) -> Result<Arc<()>> {
    let (pool, operator) = (store.pool().await, store.pool().await);
    let (begun, begins) = channel();
    let call = on_a_thread(move || call(&pool, &begun, value));
    let loss = async {
        let begins = tokio::task::spawn_blocking(move || begins.recv_timeout(HANG));
        begins.await.expect("no panic").expect("the body begins");
        let was = operator.force_release("k").await.expect("it answers");
        assert!(was.is_some(), "it was held");
    };
    tokio::join!(call, loss).0
}

/// The lease is lost while a blocking body runs, and the body then returns a value. Fails if the
/// caller gets the value, or if the value is not dropped.
async fn a_lost_lease_drops_the_value(store: &Store) {
    let (kept, is_dropped) = value();
    let ended = lost(store, ends_after_the_loss, kept).await;
    assert!(matches!(ended, Err(LockError::Lost { .. })), "{ended:?}");
    assert!(is_dropped(), "the value");
    let (kept, is_dropped) = value();
    let run: Call = |pool, begun, value| {
        let request = pool.lock("k").ttl(TTL).watchdog().wait(LONG);
        let pool = pool.clone();
        request.run_blocking(move || {
            begun.send(()).expect("the test waits");
            wait::until("the loss", HANG, || !pool.is_held("k"));
            value
        })
    };
    let ended = lost(store, run, kept).await;
    assert!(matches!(ended, Err(LockError::Lost { .. })), "{ended:?}");
    assert!(is_dropped(), "the value");
}

/// The lease of a call with `on_lost = "continue"` is lost. Fails if the call does not return the
/// value of its body.
async fn a_body_may_go_on(store: &Store) {
    let (kept, is_dropped) = value();
    let ended = lost(store, goes_on, kept).await;
    assert!(ended.is_ok(), "{ended:?}");
    assert!(!is_dropped());
    drop(ended);
    assert!(is_dropped(), "by its owner");
}

/// Fails if a call without a watchdog returns the value of a body that took longer than the ttl.
async fn a_body_that_outlasts_its_lease_has_lost_it(store: &Store) {
    const SHORT: Duration = Duration::from_millis(500);
    let pool = store.pool().await;
    let (kept, is_dropped) = value();
    let ended = on_a_thread(move || {
        let request = pool.lock("k").ttl(SHORT).wait(LONG);
        request.run_blocking(move || {
            thread::sleep(SHORT * 2);
            kept
        })
    });
    let ended = ended.await;
    assert!(matches!(ended, Err(LockError::Lost { .. })), "{ended:?}");
    assert!(is_dropped(), "the value");
}

/// Fails if the named tests do not detect a seeded bug: a call whose lease was lost returns the
/// value of its body.
#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn late_values_are_found() {
    for test in [
        "bodies::blocking::losses::memory::a_lost_lease_drops_the_value",
        "bodies::blocking::losses::memory::a_body_that_outlasts_its_lease_has_lost_it",
    ] {
        fails_with("LateValueReturned", test);
    }
}
