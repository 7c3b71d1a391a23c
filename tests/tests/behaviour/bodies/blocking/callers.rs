//! The threads that may make a blocking call: plain threads, `spawn_blocking`, threads of rayon,
//! and workers of a runtime.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use leasehold::{LockError, LockPool, distributed_lock};
use leasehold_tests::clock;
use leasehold_tests::on_stores;
use leasehold_tests::probe::Probe;
use leasehold_tests::recorder::Recorder;
use leasehold_tests::rerun::fails_with;
use leasehold_tests::stores::Store;
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use tokio::runtime::Builder;

use super::{LONG, Result, TTL, connect, on_a_thread, where_blocking_is_allowed};

/// Time for which a lock is held so that another call can begin to wait for it.
const PAUSE: Duration = Duration::from_millis(20);

on_stores!(memory redis sentinel cluster redlock postgres etcd zookeeper: (
    a_thread_without_a_runtime,
    a_thread_of_spawn_blocking,
    threads_of_rayon,
    a_worker_beside_another,
    the_only_thread_of_a_runtime,
    threads_lose_no_update,
));

#[distributed_lock(key = "k", ttl = "20s", watchdog, wait = "50s", guard = lock, pool = pool)]
fn locked(pool: &LockPool, probe: &dyn Probe) -> Result<bool> {
    lock.check()?;
    Ok(probe.exists("k"))
}

/// Takes and releases the lock with each blocking method in turn.
fn every_way(pool: &LockPool, other: &LockPool, probe: &dyn Probe) {
    assert_eq!(locked(pool, probe), Ok(true));
    let request = || pool.lock("k").ttl(TTL).wait(LONG);
    assert_eq!(request().run_blocking(|| probe.exists("k")), Ok(true));
    let guard = request().watchdog().acquire_blocking().expect("free");
    guard.check().expect("held");
    let second = other.lock("k").ttl(TTL).acquire_blocking();
    let second = second.map(drop).expect_err("held by the first");
    assert!(second.is_contention(), "{second}");
    guard.release_blocking().expect("still held");
    // The next call waits until a guard of the other pool is released.
    let guard = other.lock("k").ttl(TTL).wait(LONG).acquire_blocking();
    let guard = guard.expect("free");
    let release = thread::spawn(move || {
        thread::sleep(PAUSE);
        guard.release_blocking()
    });
    request().run_blocking(|| ()).expect("its turn comes");
    let released = release.join().expect("no panic");
    released.expect("still held");
}

/// Fails if a blocking call needs a runtime on its thread.
async fn a_thread_without_a_runtime(store: &Store) {
    let (pool, other) = (store.pool().await, store.pool().await);
    let probe = Arc::clone(&store.probe);
    on_a_thread(move || every_way(&pool, &other, &*probe)).await;
}

/// Fails if a blocking call does not get its answers on a thread of `spawn_blocking`.
async fn a_thread_of_spawn_blocking(store: &Store) {
    let (pool, other) = (store.pool().await, store.pool().await);
    let probe = Arc::clone(&store.probe);
    where_blocking_is_allowed(move || every_way(&pool, &other, &*probe)).await;
}

/// Fails if a blocking call on a thread of rayon does not get its answers. Also fails if the bodies
/// of two such calls run inside the lock at the same time.
async fn threads_of_rayon(store: &Store) {
    const CALLS: u64 = 12;
    let (pool, other) = (store.pool().await, store.pool().await);
    let probe = Arc::clone(&store.probe);
    let shared = Arc::new(Shared::default());
    let of_calls = Arc::clone(&shared);
    on_a_thread(move || {
        let threads = rayon::ThreadPoolBuilder::new().num_threads(4).build();
        threads.expect("threads start").install(|| {
            every_way(&pool, &other, &*probe);
            (0..CALLS)
                .into_par_iter()
                .try_for_each(|_| add_one(&pool, &of_calls))
                .expect("its turn comes");
        });
    })
    .await;
    shared.recorder.verify();
    assert_eq!(shared.number.load(Ordering::Relaxed), CALLS);
}

/// Fails if a blocking call hangs on a worker of a runtime.
async fn a_worker_beside_another(store: &Store) {
    let (pool, other) = (store.pool().await, store.pool().await);
    let probe = Arc::clone(&store.probe);
    let work = async move { every_way(&pool, &other, &*probe) };
    tokio::spawn(work).await.expect("no panic");
}

/// A blocking call parks the only thread of its runtime. Fails if the call then waits for a task, a
/// timer or a listener of this runtime, none of which can run.
async fn the_only_thread_of_a_runtime(store: &Store) {
    let (pool, other) = (connect(store), connect(store));
    let probe = Arc::clone(&store.probe);
    on_a_thread(move || {
        let runtime = Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime starts").block_on(async move {
            let (pool, other) = (pool.await, other.await);
            // These calls make the runtime listen for the answers of both pools.
            for pool in [&pool, &other] {
                let guard = pool.lock("warm").ttl(TTL).wait(LONG).acquire().await;
                guard.expect("free").release().await.expect("held");
            }
            let work = async move { every_way(&pool, &other, &*probe) };
            tokio::spawn(work).await.expect("no panic");
        });
    })
    .await;
}

/// A counter that only a holder of the lock may change, and a recorder that detects overlapping
/// bodies.
#[derive(Default)]
struct Shared {
    number: AtomicU64,
    recorder: Recorder,
}

#[distributed_lock(key = "counter", ttl = "20s", wait = "50s", guard = lock, pool = pool)]
fn add_one(pool: &LockPool, shared: &Shared) -> Result {
    let fence = lock.fence().map(u64::from);
    let deadline = clock::in_future(lock.remaining());
    let _inside = shared.recorder.enter("counter", fence, deadline);
    let number = shared.number.load(Ordering::Relaxed);
    thread::sleep(Duration::from_millis(1));
    shared.number.store(number + 1, Ordering::Relaxed);
    Ok(())
}

#[distributed_lock(key = "counter", ttl = "20s", wait = "50s", guard = lock, pool = pool)]
async fn add_one_async(pool: &LockPool, shared: &Shared) -> Result {
    let fence = lock.fence().map(u64::from);
    let deadline = clock::in_future(lock.remaining());
    let _inside = shared.recorder.enter("counter", fence, deadline);
    let number = shared.number.load(Ordering::Relaxed);
    tokio::time::sleep(Duration::from_millis(1)).await;
    shared.number.store(number + 1, Ordering::Relaxed);
    Ok(())
}

/// Fails if two blocking bodies, or a blocking and an async body, run inside the lock at the same
/// time. An update of the counter could then be lost.
async fn threads_lose_no_update(store: &Store) {
    const TIMES: u64 = 5;
    let pools = [store.pool().await, store.pool().await];
    let shared = Arc::new(Shared::default());
    let (mut threads, mut tasks) = (Vec::new(), Vec::new());
    for pool in pools.iter().cycle().take(4) {
        let (pool, shared) = (pool.clone(), Arc::clone(&shared));
        let (same, too) = (pool.clone(), Arc::clone(&shared));
        threads.push(on_a_thread(move || {
            (0..TIMES).try_for_each(|_| add_one(&pool, &shared))
        }));
        tasks.push(tokio::spawn(async move {
            for _ in 0..TIMES {
                add_one_async(&same, &too).await?;
            }
            Ok::<_, LockError>(())
        }));
    }
    for ended in futures_util::future::join_all(threads).await {
        ended.expect("its turn comes");
    }
    for task in tasks {
        task.await.expect("no panic").expect("its turn comes");
    }
    shared.recorder.verify();
    assert_eq!(shared.number.load(Ordering::Relaxed), 8 * TIMES);
}

/// Fails if `the_only_thread_of_a_runtime` does not detect a seeded bug. With this bug, a parked
/// thread hangs once its task has used up tokio's cooperative budget, because the task never
/// yields.
#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn threads_that_hang_are_found() {
    let test = "bodies::blocking::callers::redis::the_only_thread_of_a_runtime";
    fails_with("ParkedOnBudget", test);
}
