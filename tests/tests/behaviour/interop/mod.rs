//! Tests of one key with several clients. Leasehold and every client that follows the usual
//! convention (`SET NX PX`) must exclude each other.

mod earlier_version;
mod redis_py;
mod shell;

use std::time::{Duration, Instant};

use leasehold::{LockError, LockPool};
use leasehold_tests::lateness::Excuse;
use leasehold_tests::server::Server;
use leasehold_tests::stores::NO_OUTAGE;
use leasehold_tests::wait;

const TTL: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(400);
const PATIENCE: Duration = Duration::from_secs(10);

/// Another client that follows the convention `SET NX PX`.
trait Peer {
    /// Tries once to take `key`. The lock must expire after `ttl`.
    fn acquire(&mut self, key: &str, ttl: Duration) -> bool;
    /// Waits for `key` and takes it. Waits for at most `PATIENCE`.
    fn wait_for(&mut self, key: &str) -> bool;
    /// Releases this client's lock. Returns false if this client no longer holds it.
    fn release(&mut self) -> bool;
    /// Tries to release another client's lock on `key`. Returns true if that succeeds.
    fn forge(&mut self, key: &str) -> bool;
}

/// Tests all interactions of leasehold with another client on one key.
fn exclude_each_other(peer_of: impl Fn(&Server) -> Box<dyn Peer>) {
    let server = Server::start();
    let mut peer = peer_of(&server);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime starts");
    runtime.block_on(async {
        for (namespace, key, wire) in [
            (None, "order-1", "lock:order-1"),
            (Some(""), "order-2", "order-2"),
        ] {
            let mut pool = LockPool::builder().url(server.url()).io_timeout(NO_OUTAGE);
            if let Some(namespace) = namespace {
                pool = pool.namespace(namespace);
            }
            let pool = wait::connected(pool).await;
            let peer = peer.as_mut();
            it_excludes_us(&pool, peer, key, wire).await;
            we_exclude_it(&pool, peer, &server, key, wire).await;
            we_wait_for_it(&pool, peer, key, wire).await;
            it_waits_for_us(&pool, peer, key, wire).await;
            we_leave_alone_what_became_its(&pool, peer, key, wire).await;
        }
    });
}

/// Fails if leasehold takes a lock that the other client holds, or overwrites its value.
async fn it_excludes_us(pool: &LockPool, peer: &mut dyn Peer, key: &str, wire: &str) {
    assert!(peer.acquire(wire, TTL));
    match pool.lock(key).ttl(TTL).acquire().await {
        Err(LockError::Contended { retry_after, .. }) => {
            let left = retry_after.expect("the server reports it");
            assert!(left <= TTL && left > TTL / 2, "{left:?}");
        }
        other => panic!("not contended: {other:?}"),
    }
    assert!(peer.release(), "its lock was untouched");
    let guard = pool.lock(key).ttl(TTL).acquire().await.expect("free again");
    guard.release().await.expect("released");
}

/// Fails if the other client can take or release a lock of leasehold.
async fn we_exclude_it(
    pool: &LockPool,
    peer: &mut dyn Peer,
    server: &Server,
    key: &str,
    wire: &str,
) {
    let guard = pool.lock(key).ttl(TTL).acquire().await.expect("free");
    let value = server.probe().get(wire);
    assert!(!peer.acquire(wire, TTL), "it got in");
    assert!(!peer.forge(wire), "it released ours");
    assert_eq!(server.probe().get(wire), value);
    guard.release().await.expect("still ours");
    wait::until("free for it", PATIENCE, || peer.acquire(wire, TTL));
    assert!(peer.release());
}

/// The other client releases its lock without a message, or lets it expire. Fails if a waiting call
/// of leasehold then does not get the lock.
async fn we_wait_for_it(pool: &LockPool, peer: &mut dyn Peer, key: &str, wire: &str) {
    assert!(peer.acquire(wire, TTL));
    let waiting = tokio::spawn(pool.lock(key).ttl(TTL).wait(PATIENCE).acquire());
    assert!(!peer.acquire(wire, TTL), "held by itself");
    assert!(peer.release(), "its lock was untouched");
    let guard = waiting.await.expect("no panic").expect("after its release");
    guard.release().await.expect("released");

    wait::until("free for it", PATIENCE, || peer.acquire(wire, SHORT));
    let (started, excuse) = (Instant::now(), Excuse::begin());
    let request = pool.lock(key).ttl(TTL).wait(PATIENCE);
    let guard = request.acquire().await.expect("after its expiry");
    let most = SHORT + Duration::from_millis(600) + excuse.so_far();
    assert!(started.elapsed() < most);
    guard.release().await.expect("released");
}

/// Fails if leasehold's release leaves the key, or anything else that keeps the other client from
/// the lock.
async fn it_waits_for_us(pool: &LockPool, peer: &mut dyn Peer, key: &str, wire: &str) {
    let guard = pool.lock(key).ttl(TTL).acquire().await.expect("free");
    let release = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(50)).await;
        guard.release().await
    });
    let got = tokio::task::block_in_place(|| peer.wait_for(wire));
    assert!(got, "it never got the lock");
    release.await.expect("no panic").expect("released");
    assert!(peer.release());
}

/// Fails if leasehold releases or takes the lock that the other client got after the end of
/// leasehold's lease.
async fn we_leave_alone_what_became_its(
    pool: &LockPool,
    peer: &mut dyn Peer,
    key: &str,
    wire: &str,
) {
    let request = || pool.lock(key).ttl(SHORT).acquire();
    let guard = wait::begun(request).await.expect("free");
    wait::until("ours expires", PATIENCE, || peer.acquire(wire, TTL));
    assert!(matches!(guard.check(), Err(LockError::Lost { .. })));
    drop(guard);
    let request = pool.lock(key).ttl(TTL);
    let error = request.acquire().await.expect_err("it is the other's");
    assert!(matches!(error, LockError::Contended { .. }), "{error}");
    assert!(peer.release(), "its lock was untouched");
}
