//! Tests of a server with full memory. It must still renew leases of all kinds, and accept every
//! release.

use std::time::Duration;

use leasehold::{LockError, LockGuard, LockPool, LockRequest};
use leasehold_tests::redis_probe::RedisProbe;
use leasehold_tests::server::{Server, ServerOptions};
use leasehold_tests::stores::NO_OUTAGE;
use leasehold_tests::wait;
use redis::cmd;

const TTL: Duration = Duration::from_secs(6);
/// A sleep after which an unrenewed lease has ended.
const OVER: Duration = Duration::from_secs(7);
/// Time limit for a release to take effect. It is less than a ttl, so a just renewed lease cannot
/// expire in this time.
const SOON: Duration = Duration::from_secs(3);
const LONG: Duration = Duration::from_secs(20);
/// The only key that may be left on the server at the end.
const FENCES: &str = "lock:%leasehold:fence";

fn start() -> Server {
    ServerOptions::new()
        .option("maxmemory-policy", &["noeviction"])
        .start()
}

async fn connect(server: &Server) -> LockPool {
    let pool = LockPool::builder().url(server.url()).io_timeout(NO_OUTAGE);
    wait::connected(pool).await
}

/// Fails if the server still has other keys than the fence counter. On a busy machine, a release
/// may continue after its call.
async fn nothing_is_left(probe: &RedisProbe) {
    wait::until_async("nothing is left", SOON, || probe.keys("*") == [FENCES]).await;
}

/// Sets the memory limit so low that the server counts as full.
fn fill(probe: &RedisProbe) {
    max_memory(probe, 1);
    let set = probe.try_run::<()>(cmd("SET").arg("k").arg("v"));
    set.expect_err("the server is full");
}

fn max_memory(probe: &RedisProbe, bytes: u64) {
    probe.run::<()>(cmd("CONFIG").arg("SET").arg("maxmemory").arg(bytes));
}

async fn take(request: LockRequest) -> LockGuard {
    request.ttl(TTL).watchdog().acquire().await.expect("free")
}

/// Fails if a full server prevents the renewal or the release of a lock of any kind.
#[tokio::test]
async fn held_locks_on_a_full_server_are_renewed_and_released() {
    let server = start();
    let probe = server.probe();
    let pools = [connect(&server).await, connect(&server).await];
    let mut guards = vec![take(pools[0].lock("alone")).await];
    for pool in &pools {
        guards.push(take(pool.lock("readers").shared()).await);
        guards.push(take(pool.lock("places").permits(3)).await);
    }
    fill(&probe);
    tokio::time::sleep(OVER).await;
    for guard in guards {
        guard.check().expect("still held");
        guard.release().await.expect("still held");
    }
    nothing_is_left(&probe).await;
}

/// Fails if a lock that must stay held (`min_hold`) becomes free at its release, or stays held
/// forever. Covers every kind of lock.
#[tokio::test]
async fn locks_with_at_least_stay_on_a_full_server() {
    let server = start();
    let probe = server.probe();
    let pool = connect(&server).await;
    let mut guards = Vec::new();
    for request in [
        pool.lock("alone"),
        pool.lock("readers").shared(),
        pool.lock("places").permits(3),
    ] {
        guards.push(take(request.min_hold(LONG)).await);
    }
    fill(&probe);
    for guard in guards {
        guard.release().await.expect("still held");
    }
    for key in ["lock:alone", "lock:readers", "lock:places"] {
        let left = || probe.ttl(key).expect("it stays, and it expires");
        // Without `min_hold`, at most the ttl would be left.
        wait::until_async(key, SOON, || TTL < left()).await;
        assert!(left() <= LONG, "{key}: {:?}", left());
    }
}

/// Fails if a downgrade does not result in a shared lock, or if this shared lock is not renewed.
#[tokio::test]
async fn a_downgrade_works_on_a_full_server() {
    let server = start();
    let probe = server.probe();
    let pools = [connect(&server).await, connect(&server).await];
    let mut guard = take(pools[0].lock("k")).await;
    fill(&probe);
    guard.downgrade().await.expect("it needs no new memory");
    tokio::time::sleep(OVER).await;
    guard.check().expect("still held");
    max_memory(&probe, 0);
    let reader = take(pools[1].lock("k").shared()).await;
    let writer = pools[1].lock("k").ttl(TTL).acquire().await;
    assert!(writer.expect_err("two read").is_contention());
    reader.release().await.expect("still held");
    fill(&probe);
    guard.release().await.expect("still held");
    nothing_is_left(&probe).await;
}

/// Fails if the error of a new lock does not report full memory, or if its request leaves a key on
/// the server. Also fails if a further shared lock is refused on a key that already has shared
/// locks.
#[tokio::test]
async fn new_locks_on_a_full_server_are_refused() {
    let server = start();
    let probe = server.probe();
    let pool = connect(&server).await;
    let mut held = vec![take(pool.lock("readers").shared()).await];
    held.push(take(pool.lock("places").permits(2)).await);
    fill(&probe);
    let before = probe.size();
    for request in [
        pool.lock("alone"),
        pool.lock("new readers").shared(),
        pool.lock("new places").permits(2),
        pool.lock_all(["one", "other"]),
    ] {
        let refused = request.ttl(TTL).acquire().await;
        let LockError::Unavailable { source } = refused.expect_err("no memory") else {
            panic!("another error");
        };
        assert_eq!(source.code(), "OOM");
    }
    assert_eq!(probe.size(), before, "nothing is left");
    held.push(take(pool.lock("readers").shared()).await);
    held.push(take(pool.lock("places").permits(2)).await);
    for guard in held {
        guard.release().await.expect("still held");
    }
}

/// A writer waits when the server becomes full. Fails if the last reader's release then does not
/// free the lock.
#[tokio::test]
async fn the_last_share_is_released_to_a_waiting_writer() {
    let server = start();
    let probe = server.probe();
    let pools = [connect(&server).await, connect(&server).await];
    let reader = take(pools[0].lock("k").shared()).await;
    let writer = pools[1].lock("k").ttl(TTL).wait(LONG);
    let writer = tokio::spawn(wait::started(writer.acquire()).await);
    let queue = cmd("EXISTS").arg("lock:%leasehold:queue:lock:k").to_owned();
    wait::until_async("it waits", LONG, || probe.run(&queue)).await;
    fill(&probe);
    reader.release().await.expect("still held");
    let reported = wait::within("it is notified", LONG, writer).await;
    assert!(
        reported
            .expect("no panic")
            .is_err_and(|error| error.is_unavailable())
    );
    max_memory(&probe, 0);
    let again = pools[1].lock("k").ttl(TTL).wait(LONG).acquire();
    let again = wait::within("it is free", LONG, again).await;
    again.expect("free").release().await.expect("still held");
}

/// Fails if a shared lock that the server refuses to renew prevents the renewal of other shared
/// locks in the same request.
#[tokio::test]
async fn one_refused_share_does_not_block_other_renewals() {
    let server = start();
    let probe = server.probe();
    let other_data = || probe.overwrite("lock:%leasehold:shares:lock:refused", "data", LONG);
    leasehold::__test::one_share_is_refused(&server.url(), "lock:refused", other_data).await;
}
