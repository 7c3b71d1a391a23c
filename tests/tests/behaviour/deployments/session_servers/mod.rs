//! Tests for servers whose locks belong to sessions, as generic functions. The modules `etcd` and
//! `zookeeper` run these tests, and add tests for their own store.

use std::time::Duration;

use leasehold::{LockGuard, LockPool};
use leasehold_tests::session_server::SessionServer;
use leasehold_tests::stores::NO_OUTAGE;
use leasehold_tests::wait;

pub(super) mod connecting;
pub(super) mod faults;
pub(super) mod orphans;
pub(super) mod processes;
pub(super) mod sessions;

pub(super) const LONG: Duration = Duration::from_secs(60);

/// The ttl of a lock that is held during several steps of a test. Not every server allows a session
/// of this length, but the shared servers do.
pub(super) const HELD: Duration = Duration::from_secs(40);

/// Durations of locks and sessions in the tests of one store.
pub(super) trait Times: SessionServer {
    /// The ttl of locks whose expiry no test waits for.
    const TTL: Duration;

    /// The ttl of a lock that a separate process holds.
    const LEASE: Duration;

    /// Duration of a session for a lock with the ttl `LEASE`.
    const SESSION: Duration;
}

pub(super) async fn connect(url: &str) -> LockPool {
    wait::connected(LockPool::builder().url(url)).await
}

/// Connects with a long timeout, for tests without an outage. On a busy machine, answers may be
/// seconds late.
pub(super) async fn connect_patiently(url: &str) -> LockPool {
    wait::connected(LockPool::builder().url(url).io_timeout(NO_OUTAGE)).await
}

/// Connects for tests with a failing network or server. Calls of this pool wait for their lock,
/// unless they set another `wait`.
pub(super) async fn connect_waiting(url: &str) -> LockPool {
    wait::connected(LockPool::builder().url(url).wait(LONG)).await
}

pub(super) async fn take<S: Times>(pool: &LockPool, key: &str) -> LockGuard {
    let acquired = pool.lock(key).ttl(S::TTL).wait(LONG).acquire().await;
    acquired.unwrap_or_else(|error| panic!("{key}: {error}"))
}

/// Takes and releases a lock. The pool may need a moment to reconnect.
pub(super) async fn works<S: Times>(pool: &LockPool, key: &str) {
    let released = take::<S>(pool, key).await.release().await;
    released.unwrap_or_else(|error| panic!("{key}: {error}"));
}

/// Defines a test for each named `async fn` of the module `$suite`, on the server type of one
/// store.
macro_rules! on_one_thread {
    ($server:ty, $suite:ident: $($name:ident),+ $(,)?) => {
        $(
            #[tokio::test]
            async fn $name() {
                $crate::deployments::session_servers::$suite::$name::<$server>().await;
            }
        )+
    };
}
pub(super) use on_one_thread;

/// Like `on_one_thread`, but on a runtime with two workers.
macro_rules! on_two_workers {
    ($server:ty, $suite:ident: $($name:ident),+ $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                $crate::deployments::session_servers::$suite::$name::<$server>().await;
            }
        )+
    };
}
pub(super) use on_two_workers;
