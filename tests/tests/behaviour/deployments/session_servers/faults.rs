//! Tests that the pool recovers from faults of the server and of the network, and loses its locks
//! only in long faults.

use std::slice;
use std::time::{Duration, Instant};

use leasehold::LockError;
use leasehold_tests::holder::Holder;
use leasehold_tests::lateness::Excuse;
use leasehold_tests::pipe::{Flow, Pipe};
use leasehold_tests::probe::Probe as _;
use leasehold_tests::renewal::{self, Renewal};
use leasehold_tests::session_server::{SessionServer, leader};
use leasehold_tests::wait;

use super::{LONG, Times, connect, connect_waiting, works};
use crate::deployments::all_are_renewed;

const TTL: Duration = Holder::TTL;

/// The ttl of a lease that outlasts a short outage.
const KEPT: Duration = Duration::from_secs(4);

/// Time between the renewals of a lease that outlasts restarts of its server.
const RENEWED: Duration = Duration::from_millis(700);

/// Returns a server, a proxy in front of it, and the URL of the proxy.
pub(crate) fn behind_a_pipe<S: SessionServer>(prefix: &str) -> (&'static S, Pipe, String) {
    let server = S::shared();
    let pipe = Pipe::start(server.address());
    let url = S::url_of_all([pipe.address()], prefix);
    (server, pipe, url)
}

/// A process holds one lock with a long ttl, and does nothing else. Fails if its connection does
/// not last: a server may close a connection on which pings come too often.
pub(crate) async fn a_quiet_connection_lasts<S: SessionServer>() {
    let (_server, pipe, url) = behind_a_pipe::<S>("quiet");
    let pool = connect_waiting(&url).await;
    let request = pool.lock("held").ttl(Duration::from_secs(30)).watchdog();
    let held = request.acquire().await.expect("it is free");
    let connections = pipe.connections();
    tokio::time::sleep(Duration::from_secs(16)).await;
    // A busy machine may cause a reconnection of its own.
    let more = pipe.connections() - connections;
    assert!(more <= 1, "{more} connections were replaced");
    held.release().await.expect("held");
}

/// A proxy cuts the connection again and again. Fails if the pool does not replace it, so that a
/// waiting call fails or a held lock is lost. Also fails if a lease is lost because the connection
/// is cut during its renewal.
pub(crate) async fn ended_connections_are_replaced<S: Times>() {
    let (_server, pipe, url) = behind_a_pipe::<S>("cut");
    let pool = connect_waiting(&url).await;
    // The ttl is longer than the gaps between connections, even on a busy machine.
    let request = pool.lock("held").ttl(Duration::from_secs(15)).watchdog();
    let held = request.acquire().await;
    let held = held.expect("it is free");
    for number in 0..20 {
        pipe.cut();
        works::<S>(&pool, &format!("cut-{number}")).await;
    }
    renewal::twice(async |round| {
        let mut renewal = Renewal::near(&pool, &format!("renewed-{round}"), KEPT).await;
        pipe.set(Flow::Stall);
        renewal.outlasts(KEPT / 8).await;
        pipe.cut();
        pipe.set(Flow::Pass);
        renewal.succeeds().await
    })
    .await;
    held.release().await.expect("its lease was kept");
}

/// Restarts `server` several times. Each time, a renewal becomes due while `server` is down. Fails
/// if the pool does not reconnect automatically, or if a lease of `ttl` is lost in a crash. Also
/// fails if a call without `wait` hangs while `server` is down.
pub(crate) async fn the_pool_reconnects_to_a_restarted_server<S: Times>(
    mut server: S,
    ttl: Duration,
) {
    let pool = connect(&server.url("restarted")).await;
    let request = pool.lock("kept").ttl(ttl).watchdog_every(RENEWED);
    let kept = request.wait(LONG).acquire().await.expect("it is free");
    for number in 0..3 {
        server.kill();
        tokio::time::sleep(RENEWED).await;
        server.restart();
        works::<S>(&pool, &format!("restarted-{number}")).await;
        all_are_renewed(slice::from_ref(&kept)).await;
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
    works::<S>(&pool, "up-again").await;
}

/// Fails if a call on a paused server takes longer than its `wait`. Also fails if the server keeps
/// a lock for a call that has ended with an error.
pub(crate) async fn a_stopped_server_delays_calls_at_most_by_their_budget<S: Times>() {
    let server = S::start();
    let pool = connect(&server.url("stopped")).await;
    works::<S>(&pool, "before").await;
    let probe = server.probe("stopped", "lock:");
    for round in 0..3 {
        server.pause();
        let (started, excuse) = (Instant::now(), Excuse::begin());
        let request = pool.lock("stopped").ttl(S::TTL);
        let request = request.wait(Duration::from_millis(600)).acquire();
        let error = request.await.map(drop).expect_err("no answer comes");
        let took = started.elapsed();
        server.resume();
        assert!(error.is_unavailable(), "{error}");
        let most = Duration::from_millis(850) + excuse.so_far();
        assert!(took < most, "{took:?}");
        works::<S>(&pool, &format!("after-{round}")).await;
        // The session lasts as long as the pool, so only the pool can have removed the lock.
        let gone = || !probe.exists("stopped");
        wait::until_async("nothing is left", Duration::from_secs(20), gone).await;
    }
}

/// Fails if a lease is lost because its renewal gets no answer in a short pause of the server. Also
/// fails if a lease still counts as held after a long pause.
pub(crate) async fn leases_survive_only_short_stops<S: Times>() {
    let server = S::start();
    let pool = connect_waiting(&server.url("stops")).await;
    renewal::twice(async |round| {
        let mut renewal = Renewal::near(&pool, &format!("short-{round}"), KEPT).await;
        server.pause();
        renewal.outlasts(KEPT / 4).await;
        server.resume();
        renewal.succeeds().await
    })
    .await;
    let holder = Holder::enter(&pool, "long").await;
    server.pause();
    is_notified_of_its_loss(holder, || server.resume()).await;
    works::<S>(&pool, "long").await;
}

/// A proxy drops all data for longer than a lease lasts. Fails if the lease still counts as held
/// after that, or if the pool keeps waiting for the lost answers.
pub(crate) async fn a_long_silence_ends_a_lease<S: Times>() {
    let (_server, pipe, url) = behind_a_pipe::<S>("black-hole");
    let pool = connect_waiting(&url).await;
    let holder = Holder::enter(&pool, "held").await;
    pipe.set(Flow::BlackHole);
    is_notified_of_its_loss(holder, || pipe.set(Flow::Pass)).await;
    works::<S>(&pool, "held").await;
}

/// Waits until the holder is notified of the loss, and then calls `end`, which ends the fault.
async fn is_notified_of_its_loss(holder: Holder, end: impl FnOnce()) {
    let (started, excuse) = (Instant::now(), Excuse::begin());
    let ended = wait::within("the loss is reported", LONG, holder.task).await;
    let took = started.elapsed();
    end();
    assert!(took < TTL * 3 + excuse.so_far(), "reported after {took:?}");
    let ended = ended.expect("no panic");
    assert!(matches!(ended, Err(LockError::Lost { .. })), "{ended:?}");
}

/// Fails if a lease of `ttl` is lost because a cluster has lost its leader, or if no lock can be
/// taken afterwards.
pub(crate) async fn leases_survive_the_loss_of_a_leader<S: Times>(
    mut cluster: Vec<S>,
    ttl: Duration,
) {
    let pool = connect(&S::url_of(&cluster, "leaders")).await;
    let held = pool.lock("held").ttl(ttl).watchdog().wait(LONG);
    let held = held.acquire().await.expect("it is free");
    for round in 0..4 {
        let at = leader(&cluster, None);
        let leader = &mut cluster[at];
        let killed = round % 2 == 0;
        if killed {
            leader.kill();
        } else {
            leader.pause();
        }
        works::<S>(&pool, &format!("without-{round}")).await;
        if killed {
            leader.restart();
        } else {
            leader.resume();
        }
        works::<S>(&pool, &format!("with-{round}")).await;
        assert!(held.check().is_ok(), "round {round}");
    }
    held.release().await.expect("its lease was kept");
}
