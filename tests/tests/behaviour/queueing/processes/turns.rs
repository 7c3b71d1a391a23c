//! Tests of the time in which a process passes a lock from one of its calls to the next (its
//! tenure). The time is limited while other processes wait.

use std::time::{Duration, Instant};

use leasehold::{Fairness, LockPool};
use leasehold_tests::server::Server;

use super::{LONG, Line, connect, connect_with, settle, take};

const CALLS: u32 = 20;

/// Makes many calls in one process, and makes another process wait behind them. Returns the number
/// of calls that had the lock before the other process. The second value is true if the other
/// process may have missed its turn because the machine was busy.
async fn before_the_other(url: &str, many: LockPool, stay: Duration) -> (usize, bool) {
    let held = take(&connect(url).await, "turns").await;
    let mut line = Line::new("turns");
    line.stay = stay;
    line.join_all(&many, "many", CALLS).await;
    line.join(&connect(url).await, "other").await;
    let released = Instant::now();
    held.release().await.expect("still held");
    let (got, missed) = line.served_since(released).await;
    assert_eq!(got.len(), CALLS as usize + 1);
    let other = got.iter().position(|who| *who == "other");
    (other.expect("it is served"), missed)
}

/// Sets all limits except `max_passes` so that they have no effect, even on a slow machine.
fn endless(fairness: Fairness) -> Fairness {
    fairness.longest_turn(LONG).make_way_after(Duration::ZERO)
}

/// Fails if a process passes the lock among its own calls without end, or for another number of
/// calls than configured.
#[tokio::test]
async fn a_turn_ends_after_the_configured_passes() {
    let server = Server::start();
    for url in [&*server.url(), "memory://queue-passes"] {
        let usual = connect_with(url, endless).await;
        let few = connect_with(url, |fairness| endless(fairness).max_passes(3)).await;
        let none = connect_with(url, |fairness| endless(fairness).max_passes(0)).await;
        for (pool, passes) in [(usual, 16), (few, 3), (none, 0)] {
            let (first, missed) = before_the_other(url, pool, Duration::ZERO).await;
            assert!(missed || first == 1 + passes, "{first} of {passes}, {url}");
        }
    }
}

/// Fails if a process with long bodies passes the lock among its own calls for longer than the time
/// limit.
#[tokio::test]
async fn a_turn_ends_after_a_time_limit() {
    let server = Server::start();
    for url in [&*server.url(), "memory://queue-long"] {
        let short = |fairness: Fairness| {
            let fairness = fairness.max_passes(1_000);
            fairness.longest_turn(Duration::from_millis(30))
        };
        let pool = connect_with(url, short).await;
        // The limit is 30 ms. The second call ends after at least 40 ms, so a third call would be
        // too late.
        let (first, missed) = before_the_other(url, pool, Duration::from_millis(20)).await;
        let ends = (1..=2).contains(&first);
        assert!(ends || missed, "{first} sections of 20 ms, {url}");
    }
}

/// Fails if a process that passes the lock among its own calls does not detect that another process
/// begins to wait. Also fails if the calls before that count towards the configured passes.
#[tokio::test]
async fn a_process_arriving_during_a_turn_is_noticed() {
    let server = Server::start();
    for url in [&*server.url(), "memory://queue-middle"] {
        let many = connect_with(url, |fairness| fairness.max_passes(5)).await;
        let other = connect(url).await;
        let held = take(&connect(url).await, "middle").await;
        let mut line = Line::new("middle");
        line.stay = Duration::from_millis(100);
        line.join_all(&many, "many", 30).await;
        let released = Instant::now();
        held.release().await.expect("still held");
        tokio::time::sleep(Duration::from_millis(250)).await;
        line.join(&other, "other").await;
        settle(&many).await;
        let inside = line.served.lock().expect("no panic").len();
        let (got, missed) = line.served_since(released).await;
        let first = got.iter().position(|who| *who == "other");
        let first = first.expect("it is served");
        assert!(inside <= first, "it was not served before it came");
        // The process with many calls may have begun one more call before it received the
        // notification of the waiting process.
        assert!(
            missed || first <= inside + 5 + 1,
            "{first} with {inside} before it, {url}"
        );
    }
}
