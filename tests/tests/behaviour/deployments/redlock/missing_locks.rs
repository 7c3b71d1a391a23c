//! A release reports that the lock is gone from a majority.

use std::time::Duration;

use leasehold::{LockError, LockPool};
use leasehold_tests::lateness::Excuse;
use leasehold_tests::quorum::Quorum;
use leasehold_tests::wait;

use super::nodes::LONG;

/// A release waits a second for its answer: a tenth of this.
const TTL: Duration = Duration::from_secs(10);

/// Longest time that a node may take to answer.
const NODE_TIMEOUT: Duration = Duration::from_millis(500);

/// Fails if the loss of a majority is not reported. Fails also if the loss on one node, or a silent
/// node, counts as such a loss.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_no_majority_has_any_more_is_missed() {
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
        let told = matches!(released, Err(LockError::Lost { .. }));
        // Without timely answers a release reports nothing.
        let is_late = NODE_TIMEOUT < excuse.so_far();
        let right = told == lost || is_late && released.is_ok();
        assert!(right, "{deleted:?} {silent:?}: {released:?}");
    }
}

/// Waits for every node, because the one beyond the majority may be late.
fn wait_for_all(probes: &[leasehold_tests::redis_probe::RedisProbe]) {
    use leasehold_tests::probe::Probe;
    wait::until("all nodes have it", TTL / 2, || {
        probes.iter().all(|probe| probe.exists("k"))
    });
}
