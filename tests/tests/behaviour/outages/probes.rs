//! Tests that `LockPool::ready` and `LockPool::check` leave nothing on the servers.

use std::time::Duration;

use leasehold::LockPool;
use leasehold_tests::lateness::Excuse;
use leasehold_tests::stores::NO_OUTAGE;
use leasehold_tests::wait;

use super::servers::Servers;
use super::{LONG, TTL, on_stopped};

/// Time limit for the removal of the locks of probes. It is at most half of their ttl, so only the
/// pool can have removed them.
const SOON: Duration = Duration::from_millis(500);

/// Waits until no lock has a key with `part`. A delayed machine gets more time.
async fn nothing_is_left(servers: &Servers, part: &str, excuse: Excuse) {
    let gone = || servers.keys_with(part).is_empty();
    if !wait::try_until_async(SOON, gone).await {
        let left = servers.keys_with(part);
        wait::until_async(&format!("{left:?} is removed"), excuse.so_far(), gone).await;
    }
}

/// Fails if a probe leaves its lock on the servers, if each probe opens a session, or if a session
/// outlasts its pool.
async fn a_probe_leaves_nothing(servers: Servers) {
    let pool = LockPool::builder().url(servers.url()).io_timeout(NO_OUTAGE);
    let pool = wait::connected(pool).await;
    let held = pool.lock("ready").ttl(TTL).wait(LONG).acquire().await;
    let held = held.expect("it is free");
    assert!(
        !servers.keys_with("ready").is_empty(),
        "a held lock is seen"
    );
    held.release().await.expect("held");
    let excuse = Excuse::begin();
    for _ in 0..20 {
        pool.ready().await.expect("a lock can be taken");
    }
    nothing_is_left(&servers, "ready", excuse).await;
    // The locks and the probes have different ttls, and so different sessions.
    assert!(servers.sessions() <= 2, "{} sessions", servers.sessions());
    let report = pool.check().await.expect("it answers");
    assert!(report.is_ready(), "{report:?}");
    for part in ["check", "trial"] {
        nothing_is_left(&servers, part, excuse).await;
    }
    pool.shutdown(LONG).await;
    drop(pool);
    let ended = async {
        while 0 < servers.sessions() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    wait::within("the sessions end", LONG, ended).await;
}

on_stopped!(redis sentinel cluster redlock postgres etcd zookeeper: (a_probe_leaves_nothing));
