//! Tests of calls that block their thread while they wait: synchronous functions,
//! `acquire_blocking`, `run_blocking` and `release_blocking`.

mod callers;
mod endings;
mod losses;
mod nested;
mod options;
mod processes;

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use leasehold::{LockError, LockPool};
use leasehold_tests::stores::{NO_OUTAGE, Store};
use leasehold_tests::wait;
use tokio::sync::oneshot;

const TTL: Duration = Duration::from_secs(20);
/// Time limit for one call. A call takes longer only if it hangs.
const HANG: Duration = Duration::from_secs(60);
/// Maximum wait for a lock that another call will release.
const LONG: Duration = Duration::from_secs(50);

type Result<T = ()> = std::result::Result<T, LockError>;

/// Runs `work` on a thread without a runtime.
async fn on_a_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, ended) = oneshot::channel();
    thread::spawn(move || {
        // The send fails if the test has already failed and dropped the receiver. This error is
        // ignored.
        let _ = done.send(work());
    });
    let ended = wait::within("the thread", HANG, ended).await;
    ended.expect("no panic")
}

/// Runs `work` on a thread of `spawn_blocking`, where blocking is allowed.
async fn where_blocking_is_allowed<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    let ended = wait::within("the thread", HANG, tokio::task::spawn_blocking(work)).await;
    ended.expect("no panic")
}

/// Returns a future that connects a further pool to the store. Unlike the future of
/// [`Store::pool`], it borrows nothing, so another thread can run it.
fn connect(store: &Store) -> impl Future<Output = LockPool> + Send + use<> {
    let builder = LockPool::builder()
        .url(&store.url)
        .namespace(&store.namespace)
        .io_timeout(NO_OUTAGE);
    wait::connected(builder)
}

/// Returns a value, and a function that returns true once the value is dropped.
fn value() -> (Arc<()>, impl Fn() -> bool) {
    let value = Arc::new(());
    let weak = Arc::downgrade(&value);
    (value, move || weak.strong_count() == 0)
}
