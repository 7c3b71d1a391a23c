//! Tests that all calls get their answers on any runtime, even if the runtime that reads the
//! answers is idle or blocked. `connections::listening_runtimes` has similar tests for Redis.

use std::time::Instant;

use leasehold_tests::lateness::Excuse;
use leasehold_tests::postgres::{Database, Postgres};

use super::*;
use crate::connections::listening_runtimes::{
    calls_go_on_beside_a_blocked_runtime, calls_without_a_runtime, calls_without_sockets, pool_at,
    runtimes_at_once, small,
};

/// Statement that returns the process id of the pool's session.
const SESSION: &str = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'leasehold:%'";

fn database() -> Database {
    Postgres::shared().migrated()
}

/// Fails if callers wait because the workers of another runtime, which should read the answers, are
/// all blocked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blocked_runtime_delays_no_other_call() {
    /// Time limit of a call. A server without a free processor may need a second for its answer.
    const SLOW: Duration = Duration::from_secs(3);
    let database = database();
    let pool = pool_at(&database.url()).await;
    calls_go_on_beside_a_blocked_runtime(&pool, 2 * SLOW, SLOW).await;
}

/// Fails if calls on concurrent runtimes keep each other waiting forever, or hold a lock at the
/// same time.
#[test]
fn concurrent_runtimes_share_a_pool() {
    let database = database();
    runtimes_at_once(&small().block_on(pool_at(&database.url())));
}

/// Fails if calls need a runtime to get their answers.
#[test]
fn threads_without_a_runtime_get_answers() {
    let database = database();
    calls_without_a_runtime(&small().block_on(pool_at(&database.url())));
}

/// Fails if calls need a runtime with an I/O driver.
#[test]
fn a_runtime_without_an_io_driver_is_enough() {
    let database = database();
    calls_without_sockets(&small().block_on(pool_at(&database.url())));
}

/// Ends the session of the pool, and waits until it is gone. Returns its process id.
fn end_session(probe: &PostgresProbe) -> String {
    let pid = probe.value(SESSION);
    let ended = probe.value(&format!("SELECT pg_terminate_backend({pid})"));
    assert_eq!(ended, "t", "{pid}");
    let left = format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {pid}");
    wait::until("the session has ended", LONG, || probe.value(&left) == "0");
    pid
}

/// Fails if the pool detects the end of its connection only at its next request.
#[test]
fn an_ended_connection_is_replaced_at_once() {
    /// Time limit for a replacement. It is less than 10 s, the shortest time until the pool's next
    /// test of its connection.
    const SOON: Duration = Duration::from_secs(8);
    let database = database();
    let probe = database.probe("lock:");
    let runtime = small();
    let pool = runtime.block_on(pool_at(&database.url()));
    runtime.block_on(works(&pool, "key"));
    // One late replacement is allowed, because the machine may stall once.
    let late = (0..2).all(|_| {
        let ended = end_session(&probe);
        let replaced = wait::try_until_async(SOON, || {
            let present = probe.value(SESSION);
            !present.is_empty() && present != ended
        });
        let in_time = runtime.block_on(replaced);
        runtime.block_on(works(&pool, "key"));
        !in_time
    });
    assert!(!late, "each time");
}

/// The connection ends while the runtime that should read its answers is idle. Fails if the next
/// call waits until the connection counts as silent.
#[test]
fn an_unnoticed_disconnect_delays_no_call() {
    /// Time limit for a call. It is less than the 40 s after which a silent connection counts as
    /// ended.
    const SOON: Duration = Duration::from_secs(5);
    let database = database();
    let probe = database.probe("lock:");
    let runtime = small();
    let pool = runtime.block_on(pool_at(&database.url()));
    // After this call, the runtime has the task that reads the answers. This task is not polled
    // until the next call.
    runtime.block_on(works(&pool, "key"));
    end_session(&probe);
    let (asked, excuse) = (Instant::now(), Excuse::begin());
    runtime.block_on(works(&pool, "key"));
    let took = asked.elapsed();
    assert!(took < SOON + excuse.so_far(), "{took:?}");
}
