//! Tests that a release reports a lock that a majority has lost.

use std::time::Duration;

use leasehold::{LockError, LockPool};
use leasehold_tests::lateness::Excuse;
use leasehold_tests::quorum::Quorum;
use leasehold_tests::wait;

use super::nodes::LONG;

/// The ttl of the locks. A release waits for its answer for a tenth of the ttl, here a second.
const TTL: Duration = Duration::from_secs(10);

/// Longest time for which the pool waits for the answer of one node.
const NODE_TIMEOUT: Duration = Duration::from_millis(500);

/// Fails if a release does not report that a majority has lost the lock. Also fails if a release
/// reports a loss when only one node has lost the lock or does not answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_lost_by_a_majority_is_reported() {
    let nodes = Quorum::older_than(3, TTL);
    let probes = nodes.probes();
    let url = nodes.url_with("max_ttl=100ms&node_timeout=500ms");
    let pool = wait::connected(LockPool::builder().url(url)).await;
    for (deleted, silent, lost) in [
        (&[0][..], None, false),
        (&[0, 2], None, true),
        (&[1], Some(2), false),
        (&[0, 1], Some(2), true),
    ] {
        let guard = pool.lock("k").ttl(TTL).wait(LONG).acquire().await;
        let guard = guard.expect("free");
        wait_for_all(&probes);
        for node in deleted {
            assert!(probes[*node].delete("k"));
        }
        if let Some(node) = silent {
            nodes.servers[node].pause();
        }
        let excuse = Excuse::begin();
        let released = guard.release().await;
        if let Some(node) = silent {
            nodes.servers[node].resume();
        }
        let reported = matches!(released, Err(LockError::Lost { .. }));
        // On a delayed machine, the nodes may answer too late. The release then returns `Ok`,
        // without a report of the loss.
        let is_late = NODE_TIMEOUT < excuse.so_far();
        let right = reported == lost || is_late && released.is_ok();
        assert!(right, "{deleted:?} {silent:?}: {released:?}");
    }
}

/// Waits until every node has the lock. A lock is granted when a majority has answered, and the
/// last node may be late.
fn wait_for_all(probes: &[leasehold_tests::redis_probe::RedisProbe]) {
    use leasehold_tests::probe::Probe;
    wait::until("all nodes have it", TTL / 2, || {
        probes.iter().all(|probe| probe.exists("k"))
    });
}
