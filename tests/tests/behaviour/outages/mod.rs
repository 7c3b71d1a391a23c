//! Tests of pools whose store is unavailable: known outages, connecting in the background,
//! readiness, and changed passwords.

use std::time::{Duration, Instant};

use leasehold::{LockError, LockPool};
use leasehold_tests::lateness::Excuse;
use leasehold_tests::wait;

mod a_service;
mod connecting_lazily;
mod credentials;
mod known_outages;
mod lazily_connected;
mod probes;
mod readiness;
mod servers;

const TTL: Duration = Duration::from_secs(5);
const LONG: Duration = Duration::from_secs(60);

/// Promised time limit for a call without `wait` after the pool has detected an outage of its
/// store.
const AT_ONCE: Duration = Duration::from_millis(10);

/// Time limit for each call without `wait`. A call that waits for a missing store takes longer: the
/// `io_timeout` of its pool.
const SLOW: Duration = Duration::from_secs(8);

/// Number of calls whose duration is compared with [`AT_ONCE`]. A busy machine delays some of them.
const CALLS: usize = 20;

/// Takes a lock without `wait`, and releases it.
async fn tries(pool: &LockPool, key: &str) -> Result<(), LockError> {
    pool.lock(key).ttl(TTL).acquire().await?.release().await
}

/// Takes and releases a lock. Waits for the end of an outage if necessary.
async fn waits(pool: &LockPool, key: &str) {
    let guard = pool.lock(key).ttl(TTL).wait(LONG).acquire().await;
    let released = guard.expect("the store comes back").release().await;
    released.expect("held");
}

/// Repeats a call without `wait` until it succeeds. Such a call does not wait for a connection, so
/// the pool must reconnect in the background.
async fn comes_back(pool: &LockPool, key: &str) {
    let began = Instant::now();
    while let Err(error) = tries(pool, key).await {
        assert!(began.elapsed() < LONG, "{error}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Asserts that calls without `wait` fail, with one key and with several. Also asserts that half of
/// each kind end within [`AT_ONCE`].
async fn fail_at_once(pool: &LockPool) {
    let excuse = Excuse::begin();
    let (mut one_key, mut two_keys) = (Vec::new(), Vec::new());
    for number in 0..CALLS {
        one_key.push(fails(tries(pool, &format!("early:{number}"))).await);
        let both = pool.lock_all(["one", "two"]).ttl(TTL).acquire();
        two_keys.push(fails(async { both.await.map(drop) }).await);
    }
    let most = AT_ONCE + excuse.so_far();
    for mut times in [one_key, two_keys] {
        times.sort_unstable();
        assert!(times[CALLS / 2] < most, "{times:?}, limit {most:?}");
    }
}

/// Returns the duration of a call that fails because the store is away.
async fn fails(call: impl Future<Output = Result<(), LockError>>) -> Duration {
    let began = Instant::now();
    let ended = wait::within("a call without `wait`", SLOW, call).await;
    let took = began.elapsed();
    let error = ended.expect_err("the store is away");
    assert!(error.is_unavailable(), "{error}");
    assert_eq!(error.http_status(), 503);
    took
}

/// Generates a test of each named function on the servers of each named store.
/// `tests/tests/docs/test_names.rs` gets the names of these tests from the uses of this macro.
macro_rules! on_stopped {
    ($($store:ident)+: $names:tt) => {
        $(
            mod $store {
                super::on_stopped!(@each $store $names);
            }
        )+
    };
    (@each $store:ident ($($name:ident),+ $(,)?)) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(super::Servers::$store()).await;
            }
        )+
    };
}
use on_stopped;
