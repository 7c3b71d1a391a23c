//! Tests that an abandoned acquire leaves no lock behind, no matter when its connection ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use leasehold::{LockError, LockPool, distributed_lock};
use leasehold_tests::lateness::Excuse;
use leasehold_tests::pipe::{Flow, Pipe};
use leasehold_tests::postgres::{Database, Postgres};
use leasehold_tests::random::Random;
use leasehold_tests::wait;
use tokio::task::JoinSet;

use super::connect;

const TASKS: u32 = 8;
const TIMES: u32 = 60;

/// Time limit for the removal. Without a removal, the locks would last far longer.
const SOON: Duration = Duration::from_secs(60);

#[distributed_lock(key = "<key>", ttl = "10m", wait = "5s", pool = pool)]
async fn never_ends(pool: &LockPool, key: &str) -> Result<(), LockError> {
    std::future::pending().await
}

#[distributed_lock(key = "<key>", ttl = "10m", wait = "5s", shared, pool = pool)]
async fn never_read(pool: &LockPool, key: &str) -> Result<(), LockError> {
    std::future::pending().await
}

/// Returns the number of remaining exclusive and shared locks.
async fn left(database: &Database) -> i64 {
    let count = "SELECT (SELECT count(*) FROM leasehold.locks WHERE state <> 'free' AND expires_at > clock_timestamp())
        + (SELECT count(*) FROM leasehold.shares WHERE expires_at > clock_timestamp())";
    let client = database.client().await;
    client.query_one(count, &[]).await.expect("a count").get(0)
}

/// Fails if the lock of a dropped acquire is never removed, for example because the removal reaches
/// the server before the acquire.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_dropped_at_random_moments_leave_nothing() {
    dropped(false).await;
}

/// Fails if the pool assumes that an acquire was never executed because its answer was lost with
/// its connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_dropped_during_disconnects_leave_nothing() {
    dropped(true).await;
}

async fn dropped(ends: bool) {
    let mut random = Random::seeded("dropped");
    let database = Postgres::shared().migrated();
    let pool = connect(&database).await;
    let over = Arc::new(AtomicBool::new(false));
    let (client, ending) = (database.client().await, Arc::clone(&over));
    let mut pauses = random.fork();
    let terminator = tokio::spawn(async move {
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'leasehold:%'";
        let mut ended = 0;
        while ends && !ending.load(Ordering::Relaxed) {
            tokio::time::sleep(pauses.duration(Duration::from_millis(60))).await;
            ended += client.query(end, &[]).await.expect("an owner may").len();
        }
        ended
    });
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let (pool, mut random) = (pool.clone(), random.fork());
        tasks.spawn(async move {
            for number in 0..TIMES {
                let key = format!("dropped-{}-{}", task % 4, number % 8);
                let patience = random.duration(Duration::from_millis(12));
                let ended = if random.below(3) == 0 {
                    tokio::time::timeout(patience, never_read(&pool, &key)).await
                } else {
                    tokio::time::timeout(patience, never_ends(&pool, &key)).await
                };
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
    let ended = terminator.await.expect("no panic");
    println!("{ended} connections ended");
    assert_eq!(ends, 0 < ended, "{ended} connections ended");
    let gone = async {
        while left(&database).await > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    wait::within("nothing is left", SOON, gone).await;
}

/// Time for which a free lock stays reserved for the next process.
const CLAIM: Duration = Duration::from_secs(1);

/// Fails if a lock stays reserved for a process whose waiting call was dropped. The reservation
/// must end after `CLAIM`, although the row keeps the state `handed` until the next request for its
/// key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unclaimed_lock_is_free_after_a_second() {
    let database = Postgres::shared().migrated();
    let pipe = Pipe::start(database.address());
    let pool = connect(&database).await;
    let waiting = LockPool::builder().url(database.url_over(pipe.address()));
    let waiting = wait::connected(waiting).await;
    let held = pool
        .lock("k")
        .ttl(SOON)
        .acquire()
        .await
        .expect("it is free");
    let call = tokio::spawn(waiting.lock("k").ttl(SOON).wait(SOON).acquire());
    let client = database.client().await;
    let is = async |query: &str| {
        let row = client.query_one(query, &[]).await.expect("a row");
        row.get::<_, bool>(0)
    };
    let queued = async {
        while !is("SELECT EXISTS (SELECT FROM leasehold.waiters)").await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    wait::within("the call waits", SOON, queued).await;
    // After the abort below, the pool sends a request that removes the process from the queue. This
    // request must be lost.
    pipe.set(Flow::BlackHole);
    call.abort();
    let _ = call.await;
    let (excuse, began) = (Excuse::begin(), Instant::now());
    held.release().await.expect("held");
    assert!(is("SELECT EXISTS (SELECT FROM leasehold.locks WHERE state = 'handed')").await);
    let next = pool.lock("k").ttl(SOON).wait(SOON).acquire().await;
    drop(next.expect("it comes free"));
    let bound = CLAIM * 3 / 2 + excuse.so_far();
    assert!(
        began.elapsed() < bound,
        "{:?} of {bound:?}",
        began.elapsed()
    );
}
