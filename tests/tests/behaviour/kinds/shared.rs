//! Tests of `shared`: many readers or one writer, in memory, Redis and PostgreSQL. Some of the
//! tests also run behind a Sentinel and on a cluster.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use futures_util::future::{Either, select};
use leasehold::{LockError, LockGuard, LockPool, LockRequest, distributed_lock};
use leasehold_tests::lateness::Excuse;
use leasehold_tests::server::Server;
use leasehold_tests::stores::{NO_OUTAGE, Store};
use leasehold_tests::wait;
use leasehold_tests::{on_every_store_of_leases, on_stores};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

const TTL: Duration = Duration::from_secs(20);
const LONG: Duration = Duration::from_secs(15);
/// The ttl of a lease that is renewed in time, even on a busy machine.
const RENEWED: Duration = Duration::from_secs(12);
/// Time for which a free lock stays reserved for the next process.
const CLAIM: Duration = Duration::from_secs(1);

on_every_store_of_leases!(
    readers_hold_the_lock_together,
    a_writer_is_alone,
    a_waiting_writer_stops_new_readers,
    a_writer_is_served_despite_continuous_readers,
    a_short_reader_does_not_shorten_a_long_one,
    a_dead_reader_ends_with_its_own_lease,
    clients_without_shares_see_the_key_held,
    a_single_try_gets_the_answer_for_its_own_mode,
    a_single_try_behind_a_writer_of_the_process_is_refused,
    a_reader_does_not_become_a_writer,
    a_reader_nested_in_a_writer_enters_its_lock,
    a_watched_share_outlives_its_ttl,
    a_downgrade_lets_readers_in_and_no_writer,
    a_downgraded_lock_is_renewed_and_released_as_a_share,
    a_lost_lock_cannot_be_downgraded,
    a_dropped_downgrade_reaches_each_key,
);

on_stores!(sentinel cluster: (
    readers_hold_the_lock_together,
    a_writer_is_alone,
    a_waiting_writer_stops_new_readers,
    a_dead_reader_ends_with_its_own_lease,
    a_downgrade_lets_readers_in_and_no_writer,
));

fn read(pool: &LockPool, key: &str) -> LockRequest {
    pool.lock(key).ttl(TTL).shared()
}

fn write(pool: &LockPool, key: &str) -> LockRequest {
    pool.lock(key).ttl(TTL)
}

#[track_caller]
fn contended(result: Result<LockGuard, LockError>) {
    let error = result.expect_err("it is held");
    assert!(matches!(error, LockError::Contended { .. }), "{error:?}");
}

/// Fails if the lock leaves its key behind. A call stops waiting for the answer to its release
/// after some time, so the release may come later.
async fn is_free(store: &Store, key: &str) {
    wait::until_async(key, LONG, || !store.probe.exists(key)).await;
}

#[distributed_lock(key = "catalog", ttl = "20s", wait = "15s", shared, pool = pool)]
async fn meet(pool: &LockPool, all: &Barrier) -> Result<(), LockError> {
    all.wait().await;
    Ok(())
}

/// Each body waits until all bodies have the lock. Fails if readers exclude each other.
async fn readers_hold_the_lock_together(store: &Store) {
    let pools = [store.pool().await, store.pool().await];
    let all = Arc::new(Barrier::new(10));
    let mut readers = JoinSet::new();
    for number in 0..10 {
        let (pool, all) = (pools[number % 2].clone(), Arc::clone(&all));
        readers.spawn(async move { meet(&pool, &all).await });
    }
    while let Some(reader) = readers.join_next().await {
        reader.expect("no panic").expect("all fit in");
    }
    is_free(store, "catalog").await;
}

/// Adds `step` to `count` for a millisecond. Fails if a writer and another call have the lock
/// together. `count` is the number of readers, or negative if a writer has the lock.
async fn inside(count: &AtomicI64, step: i64) {
    let before = count.fetch_add(step, Ordering::SeqCst);
    let alone = if step < 0 { before == 0 } else { before >= 0 };
    assert!(alone, "{step} came in where {before} was");
    tokio::time::sleep(Duration::from_millis(1)).await;
    let after = count.fetch_sub(step, Ordering::SeqCst);
    assert!(
        (after < 0) == (step < 0),
        "{step} went out where {after} was"
    );
}

/// Fails if a writer and another call have the lock at the same time.
async fn a_writer_is_alone(store: &Store) {
    let pools = [store.pool().await, store.pool().await, store.pool().await];
    let count = Arc::new(AtomicI64::new(0));
    let mut calls = JoinSet::new();
    for number in 0..24 {
        let (pool, count) = (pools[number % 3].clone(), Arc::clone(&count));
        calls.spawn(async move {
            for _ in 0..12 {
                let (request, step) = match number % 4 {
                    0 => (write(&pool, "mixed"), -1_000),
                    _ => (read(&pool, "mixed"), 1),
                };
                let guard = request.wait(LONG * 2).acquire().await.expect("in time");
                inside(&count, step).await;
                guard.release().await.expect("still held");
            }
        });
    }
    while let Some(call) = calls.join_next().await {
        call.expect("never beside a writer");
    }
    is_free(store, "mixed").await;
}

/// Fails if later readers overtake a waiting writer, or if the writer does not get the lock after
/// the earlier readers have left.
async fn a_waiting_writer_stops_new_readers(store: &Store) {
    let (one, two) = (store.pool().await, store.pool().await);
    let excuse = Excuse::begin();
    let reader = read(&one, "k").acquire().await.expect("free");
    let writer = tokio::spawn(write(&two, "k").wait(LONG).acquire());
    // Once the writer is in the queue, a single attempt of a reader is refused.
    let started = Instant::now();
    while let Ok(guard) = read(&one, "k").acquire().await {
        guard.release().await.expect("still held");
        assert!(started.elapsed() < LONG, "the writer does not queue");
    }
    let late = tokio::spawn(read(&one, "k").wait(LONG).acquire());
    assert!(!writer.is_finished(), "a reader is inside");
    reader.release().await.expect("still held");
    let served = select(writer, late).await;
    let in_order = matches!(served, Either::Left(_));
    assert!(in_order || CLAIM < excuse.so_far(), "the writer waits");
    let (served, other) = served.into_inner();
    let served = served.expect("no panic").expect("its turn");
    if in_order {
        contended(read(&one, "k").acquire().await);
    }
    assert!(!other.is_finished(), "the writer is alone");
    served.release().await.expect("still held");
    let other = other.await.expect("no panic").expect("its turn");
    other.release().await.expect("still held");
}

/// Fails if a writer never gets the lock because some reader always has it.
async fn a_writer_is_served_despite_continuous_readers(store: &Store) {
    let (one, two) = (store.pool().await, store.pool().await);
    let mut readers = JoinSet::new();
    for _ in 0..4 {
        let pool = one.clone();
        readers.spawn(async move {
            loop {
                let guard = read(&pool, "busy").wait(LONG).acquire().await;
                let guard = guard.expect("in time");
                tokio::time::sleep(Duration::from_millis(5)).await;
                guard.release().await.expect("still held");
            }
        });
    }
    for _ in 0..10 {
        let writer = write(&two, "busy").wait(LONG).acquire().await;
        writer.expect("its turn").release().await.expect("held");
    }
    readers.abort_all();
    while let Some(reader) = readers.join_next().await {
        assert!(reader.expect_err("they go on").is_cancelled());
    }
}

/// A second reader takes the lock with a shorter lease than the first one. Fails if the lock is
/// free after the end of the shorter lease.
async fn a_short_reader_does_not_shorten_a_long_one(store: &Store) {
    let (one, two) = (store.pool().await, store.pool().await);
    let long = read(&one, "k").acquire().await.expect("free");
    let short = || {
        let request = one.lock("k").ttl(Duration::from_millis(300));
        request.shared().acquire()
    };
    let short = wait::begun(short).await.expect("beside the other");
    short.lost().await;
    // The guard is forgotten, so its shared lock is neither renewed nor released. Only this shared
    // lock ends.
    std::mem::forget(short);
    tokio::time::sleep(Duration::from_millis(400)).await;
    contended(write(&two, "k").acquire().await);
    assert!(long.remaining() > TTL / 2, "{:?}", long.remaining());
    long.release().await.expect("still held");
    let writer = write(&two, "k").wait(LONG).acquire().await;
    let writer = writer.expect("no reader is left");
    writer.release().await.expect("still held");
}

/// Fails if a writer gets the lock before the end of a vanished reader's lease, or much later.
async fn a_dead_reader_ends_with_its_own_lease(store: &Store) {
    let (one, two) = (store.pool().await, store.pool().await);
    let short = Duration::from_millis(700);
    let asked = Instant::now();
    let dead = one.lock("k").ttl(short).shared().acquire().await;
    // A forgotten guard is neither renewed nor released.
    std::mem::forget(dead.expect("free"));
    let writer = write(&two, "k")
        .wait(LONG)
        .acquire()
        .await
        .expect("its turn");
    let waited = asked.elapsed();
    assert!(waited >= short * 9 / 10, "{waited:?}: it was still inside");
    assert!(waited < TTL / 2, "{waited:?}: as if its lease were longer");
    writer.release().await.expect("still held");
}

/// Fails if a client that supports only exclusive locks gets the lock while readers have it. Also
/// fails if a reader gets the lock while that client has it.
async fn clients_without_shares_see_the_key_held(store: &Store) {
    let pool = store.pool().await;
    let one = read(&pool, "k").acquire().await.expect("free");
    let two = read(&pool, "k").acquire().await.expect("beside the first");
    assert!(!store.probe.take("k", TTL));
    one.release().await.expect("still held");
    assert!(!store.probe.take("k", TTL), "one is left");
    two.release().await.expect("still held");
    let taken = || store.probe.take("k", TTL);
    wait::until_async("it is free", LONG, taken).await;
    contended(read(&pool, "k").acquire().await);
    let waiting = tokio::spawn(read(&pool, "k").wait(LONG).acquire());
    store.probe.give_back("k");
    let guard = waiting.await.expect("no panic").expect("it is free");
    guard.release().await.expect("still held");
    is_free(store, "k").await;
}

/// Fails if a reader and a writer of one process, which request the lock at the same time, get the
/// same answer.
async fn a_single_try_gets_the_answer_for_its_own_mode(store: &Store) {
    let pool = store.pool().await;
    let reader = read(&pool, "k").acquire().await.expect("free");
    for _ in 0..20 {
        let (no, yes) = tokio::join!(write(&pool, "k").acquire(), read(&pool, "k").acquire());
        contended(no);
        yes.expect("beside the reader")
            .release()
            .await
            .expect("held");
    }
    reader.release().await.expect("still held");
}

/// Fails if a reader's single attempt waits behind a waiting writer of the same process, instead of
/// being refused at once.
async fn a_single_try_behind_a_writer_of_the_process_is_refused(store: &Store) {
    let pool = store.pool().await;
    let reader = read(&pool, "k").acquire().await.expect("free");
    let writer = wait::started(write(&pool, "k").wait(LONG).acquire()).await;
    let (started, excuse) = (Instant::now(), Excuse::begin());
    contended(read(&pool, "k").acquire().await);
    let most = Duration::from_millis(500) + excuse.so_far();
    assert!(started.elapsed() < most, "at once");
    reader.release().await.expect("still held");
    let writer = writer.await.expect("its turn");
    writer.release().await.expect("still held");
}

#[distributed_lock(key = "k", ttl = "20s", shared, pool = pool)]
async fn reads(pool: &LockPool) -> Result<(), LockError> {
    writes(pool).await
}

#[distributed_lock(key = "k", ttl = "20s", reentrant, pool = pool)]
async fn writes(pool: &LockPool) -> Result<(), LockError> {
    reads_inside(pool).await
}

#[distributed_lock(key = "k", ttl = "20s", shared, reentrant, pool = pool)]
async fn reads_inside(pool: &LockPool) -> Result<(), LockError> {
    let _ = pool;
    Ok(())
}

/// Fails if a nested call for an exclusive lock gets the lock beside the shared lock of its outer
/// call, or waits for that lock.
async fn a_reader_does_not_become_a_writer(store: &Store) {
    let pool = store.pool().await;
    let error = reads(&pool).await.expect_err("a reader is inside: itself");
    assert!(
        matches!(error, LockError::WouldDeadlock { .. }),
        "{error:?}"
    );
    is_free(store, "k").await;
}

async fn a_reader_nested_in_a_writer_enters_its_lock(store: &Store) {
    let pool = store.pool().await;
    writes(&pool).await.expect("nested");
    is_free(store, "k").await;
}

/// Fails if shared locks are not renewed.
async fn a_watched_share_outlives_its_ttl(store: &Store) {
    let (one, two) = (store.pool().await, store.pool().await);
    let request = one.lock("k").ttl(RENEWED).shared().watchdog();
    let guard = request.acquire().await.expect("free");
    let writer = tokio::spawn(write(&two, "k").wait(RENEWED * 4 / 3).acquire());
    let error = writer
        .await
        .expect("no panic")
        .expect_err("a reader is inside");
    assert!(matches!(error, LockError::TimedOut { .. }), "{error:?}");
    guard.check().expect("it was renewed");
    guard.release().await.expect("still held");
}

/// Fails if a writer gets the lock after a downgrade, or if waiting readers do not get it.
async fn a_downgrade_lets_readers_in_and_no_writer(store: &Store) {
    let (one, two) = (store.pool().await, store.pool().await);
    let mut guard = write(&one, "k").acquire().await.expect("free");
    let fence = guard.fence();
    let reader = tokio::spawn(read(&two, "k").wait(LONG).acquire());
    let local = tokio::spawn(read(&one, "k").wait(LONG).acquire());
    guard.downgrade().await.expect("held");
    assert_eq!(guard.fence(), fence);
    let reader = reader.await.expect("no panic").expect("beside the first");
    let local = local.await.expect("no panic").expect("beside the first");
    contended(write(&two, "k").acquire().await);
    guard.downgrade().await.expect("it is one already");
    for guard in [guard, reader, local] {
        contended(write(&two, "k").acquire().await);
        guard.release().await.expect("still held");
    }
    let writer = write(&two, "k").wait(LONG).acquire().await;
    let writer = writer.expect("all are gone");
    writer.release().await.expect("still held");
    is_free(store, "k").await;
}

async fn a_downgraded_lock_is_renewed_and_released_as_a_share(store: &Store) {
    let (one, two) = (store.pool().await, store.pool().await);
    let guard = one.lock("k").ttl(RENEWED).watchdog().acquire().await;
    let mut guard = guard.expect("free");
    guard.downgrade().await.expect("held");
    let writer = tokio::spawn(write(&two, "k").wait(RENEWED * 4 / 3).acquire());
    let error = writer
        .await
        .expect("no panic")
        .expect_err("a reader is inside");
    assert!(matches!(error, LockError::TimedOut { .. }), "{error:?}");
    guard.check().expect("it was renewed");
    drop(guard);
    // This wait is shorter than the rest of the renewed lease, so the lock must have been released.
    let writer = write(&two, "k").wait(RENEWED / 2).acquire().await;
    writer.expect("released").release().await.expect("held");
}

/// Fails if a downgrade of two keys, dropped after its first poll, leaves a key exclusive.
async fn a_dropped_downgrade_reaches_each_key(store: &Store) {
    const KEYS: [&str; 2] = ["a", "b"];
    let (one, two) = (store.pool().await, store.pool().await);
    let mut guard = one.lock_all(KEYS).ttl(TTL).acquire().await.expect("free");
    let mut downgrade = Box::pin(guard.downgrade());
    let _ = poll_fn(|cx| Poll::Ready(downgrade.as_mut().poll(cx))).await;
    drop(downgrade);
    for key in KEYS {
        let reader = read(&two, key).wait(LONG).acquire().await;
        let reader = reader.unwrap_or_else(|error| panic!("{key}: {error}"));
        reader.release().await.expect("held");
    }
    guard.release().await.expect("held");
}

/// Fails if a downgrade takes a lost lock again.
async fn a_lost_lock_cannot_be_downgraded(store: &Store) {
    let (one, two) = (store.pool().await, store.pool().await);
    let ttl = Duration::from_millis(300);
    let mut guard = one.lock("k").ttl(ttl).acquire().await.expect("free");
    guard.lost().await;
    let writer = write(&two, "k").wait(LONG).acquire().await;
    let writer = writer.expect("the lease is over");
    let error = guard.downgrade().await.expect_err("it is lost");
    assert!(error.is_lost(), "{error:?}");
    assert!(writer.check().is_ok());
    writer.release().await.expect("untouched");
}

/// Another client deletes the key of a lock that two readers share. Fails if the readers do not
/// detect the loss, or if their shared locks leave a key on the server.
#[tokio::test]
async fn a_revoked_share_is_lost_and_leaves_nothing() {
    let server = Server::start();
    let probe = server.probe();
    let pool = LockPool::builder().url(server.url()).io_timeout(NO_OUTAGE);
    let pool = wait::connected(pool).await;
    let request = || pool.lock("k").ttl(RENEWED).shared().watchdog();
    let (one, two) = (request().acquire().await, request().acquire().await);
    let (one, two) = (one.expect("free"), two.expect("beside it"));
    assert_eq!(probe.kind("lock:k"), "string");
    probe.delete("lock:k");
    one.lost().await;
    two.lost().await;
    let writer = write(&pool, "k").acquire().await.expect("it is free");
    drop((one, two));
    assert!(writer.check().is_ok());
    writer.release().await.expect("untouched");
    let again = request().acquire().await.expect("free");
    again.release().await.expect("still held");
    // The records of the owners of revoked shared locks stay until the ttl of these locks is over.
    wait::until("nothing else is left", LONG, || {
        probe.keys("*") == ["lock:%leasehold:fence"]
    });
}
