//! Tests that calls with several keys never deadlock, even while calls for shared locks and permits
//! run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use leasehold::{LockError, LockPool};
use leasehold_tests::postgres::{Database, Postgres};
use leasehold_tests::random::Random;
use leasehold_tests::room;
use tokio::task::JoinSet;

use super::{LONG, connect, fresh, pools_ended};

const PROCESSES: u32 = 4;
const TASKS: u32 = 6;
const KEYS: u64 = 8;
const LENGTH: Duration = Duration::from_secs(10);
const TTL: Duration = Duration::from_millis(150);

/// Fails if calls of different kinds deadlock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_calls_of_all_kinds_do_not_deadlock() {
    let _room = room::enter();
    let mut random = Random::seeded("deadlocks");
    let (database, first) = fresh().await;
    let served = Arc::new(AtomicU64::new(0));
    let until = Instant::now() + LENGTH;
    let mut tasks = JoinSet::new();
    for _ in 0..PROCESSES {
        let pool = connect(&database).await;
        for _ in 0..TASKS {
            let (pool, served) = (pool.clone(), Arc::clone(&served));
            let mut random = random.fork();
            tasks.spawn(async move {
                while Instant::now() < until {
                    match call(&pool, &mut random).await {
                        Ok(()) => drop(served.fetch_add(1, Ordering::Relaxed)),
                        // On a busy machine, a call with the shortest wait may time out while it
                        // waits for a row that another call has locked. If this were a deadlock,
                        // the server would count it before the time-out.
                        Err(LockError::Unavailable { source }) => {
                            assert!(["timeout", "55P03"].contains(&source.code()), "{source}");
                        }
                        Err(error) => {
                            assert!(error.is_contention() || error.is_lost(), "{error}");
                        }
                    }
                }
            });
        }
    }
    while let Some(task) = tasks.join_next().await {
        task.expect("no call meets a deadlock");
    }
    let served = served.load(Ordering::Relaxed);
    first.shutdown(LONG).await;
    drop(first);
    let deadlocks = deadlocks(&database).await;
    println!("{served} calls, {deadlocks} deadlocks");
    assert_eq!(deadlocks, 0);
    assert!(u64::from(PROCESSES * TASKS) < served, "{served}");
}

async fn call(pool: &LockPool, random: &mut Random) -> Result<(), LockError> {
    let mut key = || format!("circle:{}", random.below(KEYS));
    let (one, two, three) = (key(), key(), key());
    let wait = Duration::from_millis(random.below(3) * 100);
    let stay = random.duration(Duration::from_millis(8));
    let (kind, watchdog) = (random.below(5), random.below(2) == 0);
    let request = match kind {
        0 | 1 => pool.lock_all([one, two, three]),
        2 => pool.lock(one).shared(),
        3 => pool.lock(one).permits(2),
        _ => pool.lock(one),
    };
    let request = request.ttl(TTL).wait(wait);
    let request = if watchdog {
        request.watchdog()
    } else {
        request
    };
    request.run(async { tokio::time::sleep(stay).await }).await
}

/// Returns the number of deadlocks that the server has counted.
async fn deadlocks(database: &Database) -> i64 {
    let client = database.client().await;
    pools_ended(&client).await;
    let count = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    client.query_one(count, &[]).await.expect("a count").get(0)
}

/// SQL that requests the locks of the keys `$1` in one call, each for 1 ms. If a lock is held, the
/// request enters its queue.
const TAKE: &str = "SELECT count(*) FROM leasehold.take(gen_random_uuid(),
    array_fill('acquire'::text, ARRAY[cardinality($1::text[])]), $1,
    ARRAY(SELECT gen_random_uuid() FROM unnest($1)),
    array_fill(1, ARRAY[cardinality($1)]), array_fill(0, ARRAY[cardinality($1)]),
    array_fill(true, ARRAY[cardinality($1)]), array_fill('batch'::text, ARRAY[cardinality($1)]))";

/// Fails if a batch locks the rows in the order of its requests. Two batches with different orders
/// could then deadlock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_in_any_order_do_not_deadlock() {
    const CLIENTS: u32 = 4;
    const CALLS: u32 = 60;
    const BATCH: u64 = 40;
    let mut random = Random::seeded("batches");
    let database = Postgres::shared().migrated();
    let mut tasks = JoinSet::new();
    for _ in 0..CLIENTS {
        let (client, mut random) = (database.client().await, random.fork());
        tasks.spawn(async move {
            for _ in 0..CALLS {
                let mut keys: Vec<_> = (0..BATCH).map(|key| (random.next_u64(), key)).collect();
                keys.sort_unstable();
                let key = |(_, key): (u64, u64)| format!("batch:{key}");
                let keys: Vec<_> = keys.into_iter().map(key).collect();
                let taken = client.query(TAKE, &[&keys]).await;
                taken.unwrap_or_else(|error| panic!("{error:?}"));
            }
        });
    }
    while let Some(task) = tasks.join_next().await {
        task.expect("no call meets a deadlock");
    }
}
