//! The pool comes back by itself, with what it held, whatever the server has gone through.

use std::time::{Duration, Instant};

use leasehold::LockError;
use leasehold_tests::holder::Holder;
use leasehold_tests::lateness::Excuse;
use leasehold_tests::pipe::{Flow, Pipe};
use leasehold_tests::probe::Probe;
use leasehold_tests::random::Random;
use leasehold_tests::wait;
use leasehold_tests::zookeeper::{Settings, Zookeeper, url_of, url_of_all};

use super::{LONG, connect, works};

const TTL: Duration = Holder::TTL;

/// A server, a network in front of it, and the URL of the network.
fn behind_a_pipe(prefix: &str) -> (&'static Zookeeper, Pipe, String) {
    let server = Zookeeper::shared();
    let pipe = Pipe::start(server.address());
    let url = url_of_all([pipe.address()], prefix);
    (server, pipe, url)
}

/// Fails if a connection that has ended is kept, or if a call fails that has time to try again.
#[tokio::test]
async fn ended_connections_are_replaced() {
    let (_server, pipe, url) = behind_a_pipe("cut");
    let pool = connect(&url).await;
    let held = pool.lock("held").ttl(super::TTL).watchdog().acquire().await;
    let held = held.expect("it is free");
    for number in 0..20 {
        pipe.cut();
        works(&pool, &format!("cut-{number}")).await;
    }
    held.release().await.expect("its lease was kept");
}

/// Fails if the pool needs to be made anew after a crash of the server, or loses a lease by it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_server_is_found_again() {
    // Longer than a server takes to start on a busy machine.
    const KEPT: Duration = Duration::from_secs(30);
    let mut server = Settings::new().longest_session(KEPT * 4).start();
    let pool = connect(&server.url("restarted")).await;
    let request = pool.lock("kept").ttl(KEPT).watchdog();
    let kept = request.acquire().await.expect("it is free");
    for number in 0..3 {
        server.restart();
        works(&pool, &format!("restarted-{number}")).await;
        let probe = server.probe("restarted", "lock:");
        assert!(!probe.take("kept", TTL), "the lease was lost by a crash");
    }
    kept.release().await.expect("its lease was kept");
    server.kill();
    let (started, excuse) = (Instant::now(), Excuse::begin());
    let down = pool.lock("down").ttl(TTL).acquire().await;
    let error = down.map(drop).expect_err("it is down");
    assert!(error.is_unavailable(), "{error}");
    assert!(started.elapsed() < Duration::from_secs(2) + excuse.so_far());
    server.restart();
    works(&pool, "up-again").await;
}

/// Fails if a stopped server blocks callers beyond their budget, or leaves what they gave up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_server_costs_the_budget_and_no_more() {
    let server = Zookeeper::start();
    let pool = connect(&server.url("stopped")).await;
    works(&pool, "before").await;
    let probe = server.probe("stopped", "lock:");
    for round in 0..3 {
        server.pause();
        let (started, excuse) = (Instant::now(), Excuse::begin());
        let request = pool.lock("stopped").ttl(super::TTL);
        let request = request.wait(Duration::from_millis(600)).acquire();
        let error = request.await.map(drop).expect_err("no answer comes");
        let took = started.elapsed();
        server.resume();
        assert!(error.is_unavailable(), "{error}");
        let most = Duration::from_millis(850) + excuse.so_far();
        assert!(took < most, "{took:?}");
        works(&pool, &format!("after-{round}")).await;
        // The session lasts as long as the pool.
        let gone = || !probe.exists("stopped");
        wait::until_async("nothing is left", Duration::from_secs(20), gone).await;
    }
}

/// Fails if a lease is given up because of a short stop, or believed in after a long one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_and_stops() {
    let server = Zookeeper::start();
    let pool = connect(&server.url("stops")).await;
    for round in 0..3 {
        let holder = Holder::enter(&pool, &format!("short-{round}")).await;
        let excuse = Excuse::begin();
        server.pause();
        tokio::time::sleep(TTL / 4).await;
        server.resume();
        // Long enough that a lost lease would show.
        tokio::time::sleep(TTL * 2).await;
        if excuse.longest() < TTL / 10 {
            holder.leave("a short stop").await;
        }
    }
    let holder = Holder::enter(&pool, "long").await;
    server.pause();
    let ended = wait::within("the loss is told", TTL * 3, holder.task).await;
    server.resume();
    let ended = ended.expect("no panic");
    assert!(matches!(ended, Err(LockError::Lost { .. })), "{ended:?}");
    works(&pool, "long").await;
}

/// Fails if a lease is believed in while nothing is heard, or if the pool waits for answers that
/// were swallowed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_black_hole() {
    let (_server, pipe, url) = behind_a_pipe("black-hole");
    let pool = connect(&url).await;
    let holder = Holder::enter(&pool, "held").await;
    pipe.set(Flow::BlackHole);
    let ended = wait::within("the loss is told", TTL * 3, holder.task).await;
    let ended = ended.expect("no panic");
    assert!(matches!(ended, Err(LockError::Lost { .. })), "{ended:?}");
    pipe.set(Flow::Pass);
    works(&pool, "held").await;
}

/// Fails if an acquire whose answer was lost leaves a node, or is refused by its own node. The
/// answers vanish at a random moment, so only some rounds lose that to the creation.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_answers() {
    const WANTED: u32 = 5;
    let (server, pipe, url) = behind_a_pipe("lost-answers");
    let pool = connect(&url).await;
    let probe = server.probe("lost-answers", "lock:");
    let mut random = Random::seeded("lost answers of ZooKeeper");
    let mut lost = 0;
    for round in 0..400 {
        // Opens the session again, should it have ended.
        works(&pool, "before").await;
        let request = pool.lock("lost").ttl(super::TTL).wait(LONG);
        let request = tokio::spawn(request.acquire());
        tokio::time::sleep(random.duration(Duration::from_millis(4))).await;
        pipe.set(Flow::LoseAnswers);
        tokio::time::sleep(Duration::from_millis(20)).await;
        lost += u32::from(probe.exists("lost") && !request.is_finished());
        pipe.set(Flow::Pass);
        pipe.cut();
        let guard = request.await.expect("no panic");
        let guard = guard.unwrap_or_else(|error| panic!("round {round}: {error}"));
        assert_eq!(probe.nodes("lost").len(), 1, "its own node, and no other");
        guard.release().await.expect("held");
        let gone = || !probe.exists("lost");
        wait::until_async("nothing is left", LONG, gone).await;
        if lost == WANTED {
            return;
        }
    }
    panic!("{lost} of {WANTED} answers were lost");
}

/// Fails if a lease is lost because an ensemble has lost its leader, or if no lock is to be had
/// afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leaders_are_killed_and_stopped() {
    // Longer than the other members take to miss a leader that stands still, and to choose another.
    const HELD: Duration = Duration::from_secs(12);
    let mut ensemble = Settings::new().longest_session(LONG).ensemble(3);
    let pool = connect(&url_of(&ensemble, "leaders")).await;
    let held = pool.lock("held").ttl(HELD).watchdog().acquire().await;
    let held = held.expect("it is free");
    for round in 0..4 {
        let mut leader = None;
        wait::until("there is a leader", LONG, || {
            leader = ensemble.iter().position(Zookeeper::leads);
            leader.is_some()
        });
        let leader = &mut ensemble[leader.expect("one leads")];
        let killed = round % 2 == 0;
        if killed {
            leader.kill();
        } else {
            leader.pause();
        }
        works(&pool, &format!("without-{round}")).await;
        if killed {
            leader.restart();
        } else {
            leader.resume();
        }
        works(&pool, &format!("with-{round}")).await;
        assert!(held.check().is_ok(), "round {round}");
    }
    held.release().await.expect("its lease was kept");
}
