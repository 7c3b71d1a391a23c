//! Tests that the pool recovers from faults of the server and of the network, and loses its locks
//! only in long faults.

use std::time::Duration;

use leasehold_tests::pipe::Flow;
use leasehold_tests::probe::Probe as _;
use leasehold_tests::random::Random;
use leasehold_tests::rerun::fails_with;
use leasehold_tests::session_server::{SessionProbe as _, SessionServer as _};
use leasehold_tests::wait;
use leasehold_tests::zookeeper::{Settings, Zookeeper};

use super::{LEADERLESS, TTL};
use crate::deployments::session_servers::faults::{self, behind_a_pipe};
use crate::deployments::session_servers::{LONG, connect, on_one_thread, on_two_workers, works};

on_one_thread! { Zookeeper, faults: ended_connections_are_replaced, a_quiet_connection_lasts }

on_two_workers! { Zookeeper, faults:
    a_stopped_server_delays_calls_at_most_by_their_budget,
    leases_survive_only_short_stops,
    a_long_silence_ends_a_lease,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_pool_reconnects_to_a_restarted_server() {
    // The ttl is longer than the start of a server takes, even on a busy machine.
    const KEPT: Duration = Duration::from_secs(100);
    let server = Settings::new().longest_session(KEPT * 2).start();
    faults::the_pool_reconnects_to_a_restarted_server(server, KEPT).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_survive_the_loss_of_a_leader() {
    let ensemble = Settings::new().longest_session(LONG).ensemble(3);
    faults::leases_survive_the_loss_of_a_leader(ensemble, LEADERLESS).await;
}

/// A connection resumes a session, but fails before the pool uses it. Fails if the client then
/// closes the session. Its locks would be free while their holders still run.
#[tokio::test]
async fn a_failed_attempt_to_resume_a_session_ends_no_session() {
    let server = Settings::new().start();
    let address = server.address().to_string();
    let outlives = leasehold::__test::zookeeper_sessions_outlive_attempts(&address);
    assert!(outlives.await, "the session is closed");
}

#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn an_attempt_that_closes_its_session_is_detected() {
    let test =
        "deployments::zookeeper::faults::a_failed_attempt_to_resume_a_session_ends_no_session";
    fails_with("AttemptsClose", test);
}

/// Each round loses all answers after a random moment. In some rounds, this includes the answer to
/// the request that has created the acquire's znode. Fails if the acquire is then refused because
/// of this znode, or leaves a second znode.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_answers() {
    const WANTED: u32 = 5;
    let (server, pipe, url) = behind_a_pipe::<Zookeeper>("lost-answers");
    let pool = connect(&url).await;
    let probe = server.probe("lost-answers", "lock:");
    let mut random = Random::seeded("lost answers of ZooKeeper");
    let mut lost = 0;
    for round in 0..400 {
        // This call opens a new session if the old session has ended.
        works::<Zookeeper>(&pool, "before").await;
        let request = pool.lock("lost").ttl(TTL).wait(LONG);
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
