//! Tests that waiting processes are notified when a lock is free for them, regardless of the node
//! that has its key.

use std::time::{Duration, Instant};

use leasehold_tests::cluster::MASTERS;
use leasehold_tests::lateness::Excuse;
use leasehold_tests::wait;

use super::{LONG, SHARED, TTL, connect, take};

/// Upper bound of the time after which a waiting process repeats its request without a
/// notification. The mean time is half as long.
const SLOW_POLL: Duration = Duration::from_secs(1);

/// Returns one key on each of the masters.
fn keys() -> Vec<String> {
    let on = |node: usize| {
        let mut keys = (0..).map(|number| format!("turns:{number}"));
        let here = keys.find(|key| SHARED.owner(SHARED.slot(&format!("lock:{key}"))) == node);
        here.expect("a node has some of all keys")
    };
    (0..MASTERS).map(on).collect()
}

/// Fails if a process listens to one node only, or drops notifications. The waiting calls would
/// then repeat their requests so late that the rounds would take too long.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_is_notified_of_its_turn_by_every_node() {
    const ROUNDS: u32 = 10;
    let pools = [connect(&SHARED.url()).await, connect(&SHARED.url()).await];
    for key in keys() {
        let mut held = take(&pools[0], &key).await;
        let (started, excuse) = (Instant::now(), Excuse::begin());
        for round in 0..ROUNDS {
            let next = &pools[usize::from(round % 2 == 0)];
            let waiting = wait::started(next.lock(&key).ttl(TTL).wait(LONG).acquire()).await;
            // The round trips of this call give the waiting call time to enter the queue.
            take(next, "turns:settle")
                .await
                .release()
                .await
                .expect("held");
            held.release().await.expect("still held");
            held = waiting.await.expect("its turn");
        }
        let took = started.elapsed();
        let most = SLOW_POLL * ROUNDS / 3 + excuse.so_far() * ROUNDS;
        assert!(took < most, "{key}: {took:?}");
    }
}
