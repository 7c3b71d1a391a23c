//! Tests of unexpected nodes (which hold no lock of this crate, or are not readable) on servers
//! with sessions. Such nodes must hide no lock, and a node that holds a lock must be shown.

use leasehold::{LockPool, LockState};
use leasehold_tests::etcd::Etcd;
use leasehold_tests::session_server::SessionServer;
use leasehold_tests::stores::NO_OUTAGE;
use leasehold_tests::wait;
use leasehold_tests::zookeeper::Zookeeper;

use super::TTL;

async fn connect(url: &str) -> LockPool {
    let pool = LockPool::builder().url(url).io_timeout(NO_OUTAGE);
    wait::connected(pool).await
}

/// Returns the listed keys. Each key has a flag, which is true if the holder is another client.
async fn listed(pool: &LockPool) -> Vec<(String, bool)> {
    let (mut locks, mut keys) = (pool.locks("*"), Vec::new());
    while let Some(lock) = locks.next().await {
        let lock = lock.expect("one odd node is not the list's end");
        assert_eq!(lock.state, LockState::Exclusive, "{lock:?}");
        keys.push((lock.key, lock.holders[0].foreign));
    }
    keys.sort_unstable();
    keys
}

/// Fails if `inspect` does not show another client's lock as held, or if a call gets the lock.
async fn is_taken(pool: &LockPool, key: &str) {
    let lock = pool.inspect(key).await.expect("it answers");
    assert_eq!(lock.state, LockState::Exclusive, "{lock:?}");
    assert!(lock.holders[0].foreign, "{lock:?}");
    assert_eq!(lock.holders[0].owner, None, "{lock:?}");
    let refused = pool.lock(key).ttl(TTL).acquire().await;
    let refused = refused.map(drop).expect_err("another client has it");
    assert!(refused.is_contention(), "{key}: {refused}");
}

/// Fails if a key of etcd with a name or a value other than text hides a lock. If the key is in the
/// directory of a lock, that lock must be shown as held.
#[tokio::test]
async fn bytes_other_than_text_hide_no_lock() {
    let server = Etcd::shared();
    let pool = connect(&server.url("odd")).await;
    let guard = pool.lock("k").ttl(TTL).acquire().await.expect("free");
    let pairs: [(&[u8], &[u8]); 10] = [
        (b"odd/lock:node/\xff\xfe", b"theirs"),
        (b"odd/lock:value/theirs", b"\xff\xfe"),
        (b"odd/lock:empty/", b""),
        // These are not keys of locks.
        (b"odd/\xff\xfe/theirs", b""),
        (b"odd/lock:\xff\xfe/theirs", b""),
        (b"odd/lock:%zz/theirs", b""),
        (b"odd/lock:%2f/theirs", b""),
        (b"odd/lock:none", b""),
        (b"odd//", b""),
        (b"odd/", b""),
    ];
    server.gateway().put_bytes(&pairs);
    let expected = [
        ("empty", true),
        ("k", false),
        ("node", true),
        ("value", true),
    ];
    assert_eq!(
        listed(&pool).await,
        expected.map(|(key, foreign)| (key.to_owned(), foreign))
    );
    for key in ["empty", "node", "value"] {
        is_taken(&pool, key).await;
    }
    guard.release().await.expect("held");
    for key in ["empty", "node", "value"] {
        let was = pool.force_release(key).await.expect("it answers");
        assert!(was.expect("it was there").holders[0].foreign, "{key}");
        let lock = pool.inspect(key).await.expect("it answers");
        assert!(!lock.is_taken(), "{key} stays: {lock:?}");
    }
}

/// Fails if locks are hidden behind more non-text keys than fit into one answer.
#[tokio::test]
async fn many_keys_other_than_text_hide_no_lock() {
    let server = Etcd::shared();
    let pool = connect(&server.url("many-odd")).await;
    let mut guards = Vec::new();
    // In the order of their bytes, one of these keys is before the odd keys, and the other one
    // after them.
    for key in ["a", "\u{10ffff}"] {
        guards.push(pool.lock(key).ttl(TTL).acquire().await.expect("free"));
    }
    let key = |number: usize| [b"many-odd/lock:\xc0", format!("{number:06}/n").as_bytes()].concat();
    let pairs: Vec<_> = (0..2_500).map(|number| (key(number), "")).collect();
    server.gateway().put_bytes(&pairs);
    let expected = ["a", "\u{10ffff}"].map(|key| (key.to_owned(), false));
    assert_eq!(listed(&pool).await, expected);
    drop(guards);
}

/// Fails if a znode that this client may not read, or a znode with an odd name, hides a lock.
#[tokio::test(flavor = "multi_thread")]
async fn znodes_without_permission_hide_no_lock() {
    let server = Zookeeper::shared();
    let (pool, client) = (connect(&server.url("odd")).await, server.client());
    let guard = pool.lock("k").ttl(TTL).acquire().await.expect("free");
    for names in [
        // These are not keys of locks.
        "%FF/lock-",
        "lock:%zz/lock-",
        "lock:%2f/lock-",
        // These nodes are below a key, but belong to other recipes of Curator (a client of
        // ZooKeeper), such as its read locks.
        "lock:leases/leases",
        "lock:readers/x__READ__",
        "lock:named/lock-x",
    ] {
        client.make_path(&format!("/odd/{names}"));
    }
    for directory in ["secret", "hidden", "binary"] {
        client.make_path(&format!("/odd/lock:{directory}"));
    }
    let made = |path: &str, data| client.enqueue_with(path, data).expect("its directory");
    made("/odd/lock:binary/lock-", b"\xff\xfe");
    made("/odd/lock:secret/lock-", b"theirs");
    let hidden = made("/odd/lock:hidden/lock-", b"theirs");
    for path in ["/odd/lock:secret", &hidden] {
        client.restrict(path, "another", "client");
    }
    let expected = [
        ("binary", true),
        ("hidden", true),
        ("k", false),
        ("secret", true),
    ];
    assert_eq!(
        listed(&pool).await,
        expected.map(|(key, foreign)| (key.to_owned(), foreign))
    );
    for key in ["binary", "hidden"] {
        is_taken(&pool, key).await;
    }
    // The client may not read this lock, so `inspect` must return an error instead of a free lock.
    let secret = pool.inspect("secret").await.map(drop);
    let secret = secret.expect_err("no permission").to_string();
    assert!(secret.contains("no permission"), "{secret}");
    guard.release().await.expect("held");
}
