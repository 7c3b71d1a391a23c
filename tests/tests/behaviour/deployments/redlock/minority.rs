//! Tests of a quorum in which some nodes are down or hang. As long as a majority of the nodes
//! answers, calls must get their locks.

use std::time::{Duration, Instant};

use leasehold::{LockError, LockPool};
use leasehold_tests::lateness::Excuse;
use leasehold_tests::wait;

use super::nodes::{LONG, TTL, builder, count, left, nodes, pool};

/// Takes and releases `times` locks. Returns the time of the fastest acquire.
async fn take(pool: &LockPool, name: &str, times: usize) -> Duration {
    let mut fastest = Duration::MAX;
    for number in 0..times {
        let started = Instant::now();
        let request = pool.lock(format!("{name}-{number}")).ttl(TTL).wait(LONG);
        let guard = request.acquire().await.expect("a majority is there");
        fastest = fastest.min(started.elapsed());
        guard.release().await.expect("a majority is there");
    }
    fastest
}

/// Kills `away` of `of` nodes, a minority. Fails if a call then returns the error of a killed node,
/// although the other nodes are a majority.
async fn down(of: usize, away: usize) {
    let mut nodes = nodes(of);
    let pool = pool(&nodes).await;
    take(&pool, "before", 3).await;
    for node in 0..away {
        nodes.servers[node].kill();
    }
    take(&pool, "without", 50).await;
}

#[tokio::test]
async fn one_of_three_is_down() {
    down(3, 1).await;
}

#[tokio::test]
async fn two_of_five_are_down() {
    down(5, 2).await;
}

/// Pauses `away` of `of` nodes, a minority. Fails if even the fastest of three acquires waits for
/// the paused nodes.
async fn hung(of: usize, away: usize) {
    let nodes = nodes(of);
    let pool = pool(&nodes).await;
    take(&pool, "before", 3).await;
    for node in 0..away {
        nodes.servers[node].pause();
    }
    let (paused, excuse) = (Instant::now(), Excuse::begin());
    // The pool soon skips nodes that do not answer, so only the first acquires could wait for them.
    let fastest = take(&pool, "first", 3).await;
    // Half of the default node timeout. An acquire that waits for a paused node takes the whole
    // timeout.
    let most = Duration::from_millis(25) + excuse.so_far();
    take(&pool, "without", 50).await;
    let took = paused.elapsed() + excuse.so_far();
    for node in 0..away {
        nodes.servers[node].resume();
    }
    // The answers of the running nodes are a majority, so no call has to wait for a paused node.
    assert!(fastest < most, "{fastest:?}");
    let probes = nodes.probes();
    // Half of the ttl is too short for the keys to expire, so only the pool can have removed them.
    // The pool repeats a removal only until the end of the ttl. On a busy machine this end may come
    // before the nodes answer, and the keys then expire.
    let limit = if took < TTL / 2 { TTL / 2 } else { TTL * 2 };
    wait::until("the hung nodes are cleaned", limit, || {
        left(&probes, "")
            .iter()
            .all(|key| key.starts_with("lock:%"))
    });
}

#[tokio::test]
async fn one_of_three_hangs() {
    hung(3, 1).await;
}

#[tokio::test]
async fn two_of_five_hang() {
    hung(5, 2).await;
}

#[tokio::test]
async fn an_unavailable_minority_is_used_when_it_comes_back() {
    let mut nodes = nodes(3);
    nodes.servers[2].kill();
    let pool = pool(&nodes).await;
    take(&pool, "without", 3).await;
    nodes.servers[2].restart();
    let probes = nodes.probes();
    for _ in 0..1_000 {
        let guard = pool.lock("all").ttl(TTL).wait(LONG).acquire().await;
        let guard = guard.expect("two of three vote");
        let everywhere = wait::try_until(TTL / 100, || count(&probes, "all") == 3).is_some();
        guard.release().await.expect("it is held");
        if everywhere {
            return;
        }
    }
    panic!("the node that came back is given no locks");
}

#[tokio::test]
async fn no_lock_is_granted_without_a_majority() {
    let mut nodes = nodes(3);
    let pool = builder(&nodes).io_timeout(Duration::from_millis(400));
    let pool = wait::connected(pool).await;
    nodes.servers[0].kill();
    nodes.servers[1].pause();
    for wait in [Duration::ZERO, Duration::from_millis(600)] {
        let (started, excuse) = (Instant::now(), Excuse::begin());
        let error = pool.lock("k").ttl(TTL).wait(wait).acquire().await;
        let error = error.expect_err("one of three is no majority");
        let took = started.elapsed();
        let budget = wait.max(Duration::from_millis(400));
        assert!(matches!(error, LockError::Unavailable { .. }), "{error}");
        // On a delayed machine, the running third node may also count as silent. The error then
        // reports three nodes.
        let is_late = Duration::from_millis(50) < excuse.so_far();
        let reported = error.to_string().contains("2 of 3 nodes");
        assert!(reported || is_late, "{error}");
        let most = budget + Duration::from_millis(400) + excuse.so_far();
        assert!(took < most, "{took:?}");
    }
    nodes.servers[1].resume();
    take(&pool, "again", 3).await;
}
