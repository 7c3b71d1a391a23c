//! Tests of lost messages. A waiting process that misses a message must still get the lock, by
//! repeating its request.

use std::time::{Duration, Instant};

use leasehold_tests::lateness::Excuse;
use leasehold_tests::proxy::{Mode, Proxy};
use leasehold_tests::server::Server;
use redis::cmd;

use super::{CLAIM, Line, connect, connect_with, held, queued, take};

/// Tolerance for a busy machine.
const SLACK: Duration = Duration::from_millis(500);

/// The first waiting process does not receive the message about its turn. Fails if it does not
/// repeat its request, or does so only after the store has given the lock to the next process.
#[tokio::test]
async fn a_lost_turn_message_is_compensated_by_polling() {
    let (server, _probe, held) = held("lost").await;
    let proxy = Proxy::start(server.address());
    let mut line = Line::new("lost");
    line.join(&connect(&proxy.url()).await, "deaf").await;
    line.join(&connect(&server.url()).await, "next").await;
    proxy.set(Mode::LoseMessages);
    let (released, excuse) = (Instant::now(), Excuse::begin());
    held.release().await.expect("still held");
    line.served_as(released, &["deaf", "next"]).await;
    let took = released.elapsed();
    assert!(took < CLAIM + SLACK + excuse.so_far(), "{took:?}");
}

/// Cuts the connections of the waiting processes just before the lock is released for one of them.
/// Fails if the lock then stays locked, without a holder, until the end of its lease.
#[tokio::test]
async fn a_connection_lost_at_the_hand_over_delays_no_lock() {
    for all in [false, true] {
        let (server, probe, held) = held("broken").await;
        let proxy = Proxy::start(server.address());
        let mut line = Line::new("broken");
        for name in ["a", "b"] {
            line.join(&connect(&proxy.url()).await, name).await;
        }
        let (started, excuse) = (Instant::now(), Excuse::begin());
        if all {
            probe.run::<()>(cmd("CLIENT").arg("KILL").arg("TYPE").arg("PUBSUB"));
        } else {
            proxy.cut();
        }
        held.release().await.expect("still held");
        let mut got = line.served().await;
        got.sort_unstable();
        assert_eq!(got, ["a", "b"], "each once, in either order");
        let took = started.elapsed();
        assert!(took < CLAIM + SLACK + excuse.so_far(), "{took:?}");
        assert_eq!(queued(&probe, "broken"), 0);
    }
}

/// A process passes the lock among its own calls, and misses the message that another process has
/// begun to wait. Fails if the other process gets the lock only after most of these calls.
#[tokio::test]
async fn a_holder_without_the_wait_message_ends_its_turn() {
    const CALLS: usize = 60;
    let server = Server::start();
    let proxy = Proxy::start(server.address());
    let many = connect_with(&proxy.url(), |fairness| fairness.max_passes(1)).await;
    let other = connect(&server.url()).await;
    let held = take(&connect(&server.url()).await, "untold").await;
    let mut line = Line::new("untold");
    line.stay = Duration::from_millis(50);
    line.join_all(&many, "many", 60).await;
    held.release().await.expect("still held");
    tokio::time::sleep(Duration::from_millis(100)).await;
    proxy.set(Mode::LoseMessages);
    line.join(&other, "other").await;
    proxy.pass();
    let inside = line.served.lock().expect("no panic").len();
    let excuse = line.excuse;
    let got = line.served().await;
    assert_eq!(got.len(), CALLS + 1);
    let first = got.iter().position(|who| *who == "other");
    let first = first.expect("it is served");
    let late = excuse.so_far().as_millis() / 50;
    let most = inside + CALLS * 3 / 5 + usize::try_from(late).unwrap_or(CALLS);
    assert!(
        first <= most,
        "{first} of {CALLS} came before, {inside} before it asked"
    );
}
