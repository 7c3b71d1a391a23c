//! Tests that an abandoned acquire leaves no node behind, no matter when its connection ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold::{LockError, LockPool, distributed_lock};
use leasehold_tests::random::Random;
use leasehold_tests::session_server::{SessionProbe as _, SessionServer};
use leasehold_tests::wait;
use tokio::task::JoinSet;

use super::faults::behind_a_pipe;
use super::{LONG, connect};

const TASKS: u32 = 8;
const TIMES: u32 = 40;

#[distributed_lock(key = "<key>", ttl = "10m", wait = "5s", pool = pool)]
async fn never_ends(pool: &LockPool, key: &str) -> Result<(), LockError> {
    std::future::pending().await
}

/// Fails if the node of a dropped acquire is never removed, for example because the removal reaches
/// the server before the acquire.
pub(crate) async fn calls_dropped_at_random_moments_leave_nothing<S: SessionServer>() {
    dropped::<S>("dropped", false).await;
}

/// Fails if the pool assumes that an acquire was never executed because its answer was lost with
/// its connection.
pub(crate) async fn calls_dropped_during_disconnects_leave_nothing<S: SessionServer>() {
    dropped::<S>("dropped-and-cut", true).await;
}

async fn dropped<S: SessionServer>(prefix: &str, cuts: bool) {
    let mut random = Random::seeded(prefix);
    let (server, pipe, url) = behind_a_pipe::<S>(prefix);
    let (pipe, pool) = (Arc::new(pipe), connect(&url).await);
    let over = Arc::new(AtomicBool::new(false));
    let (cut, ending, mut pauses) = (Arc::clone(&pipe), Arc::clone(&over), random.fork());
    let cutter = tokio::spawn(async move {
        while cuts && !ending.load(Ordering::Relaxed) {
            tokio::time::sleep(pauses.duration(Duration::from_millis(80))).await;
            cut.cut();
        }
    });
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let (pool, mut random) = (pool.clone(), random.fork());
        tasks.spawn(async move {
            for number in 0..TIMES {
                let key = format!("dropped-{}-{}", task % 4, number % 8);
                let patience = random.duration(Duration::from_millis(40));
                let ended = tokio::time::timeout(patience, never_ends(&pool, &key)).await;
                if let Ok(Err(error)) = ended {
                    assert!(error.is_unavailable() || error.is_contention(), "{error}");
                }
            }
        });
    }
    while let Some(task) = tasks.join_next().await {
        task.expect("no panic");
    }
    over.store(true, Ordering::Relaxed);
    cutter.await.expect("no panic");
    let probe = server.probe(prefix, "lock:");
    let gone = || probe.left().is_empty();
    wait::until_async("nothing is left", LONG, gone).await;
    let report = pool.shutdown(LONG).await;
    assert_eq!(report.still_held, 0, "{report:?}");
}
