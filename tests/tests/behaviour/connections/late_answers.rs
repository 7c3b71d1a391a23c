//! Tests of answers that come after the pool has given up waiting for them.

use std::time::Duration;

use leasehold::LockPool;
use leasehold_tests::proxy::{Mode, Proxy};
use leasehold_tests::rerun::fails_with;
use leasehold_tests::server::Server;
use leasehold_tests::wait;

/// The `io_timeout` of the pools whose answers are late.
const LIMIT: Duration = Duration::from_millis(300);

const LONG: Duration = Duration::from_secs(60);

/// A pool reconnects. The answer to the `PUBLISH` of its new connection comes late, and no other
/// connection can be opened. Two calls wait for locks meanwhile, one for a free lock and one for a
/// lock that another pool holds. Fails if a call gets the answer to an earlier request: the first
/// call would fail, and the second one would get the held lock.
#[tokio::test]
async fn a_late_answer_is_for_no_other_request() {
    let server = Server::start();
    let network = Proxy::start(server.address());
    let other = wait::connected(LockPool::builder().url(server.url())).await;
    let held = other.lock("held").ttl(LONG).acquire().await.expect("free");
    let hasty = LockPool::builder().url(network.url()).io_timeout(LIMIT);
    let pool = wait::connected(hasty).await;
    network.hold("PUBLISH");
    network.cut();
    let acquire = |key| tokio::spawn(pool.lock(key).ttl(LONG).wait(LONG).acquire());
    let free = acquire("free");
    wait::until_async("the request is held back", LONG, || {
        0 < network.counts().held
    })
    .await;
    network.set(Mode::Refuse);
    // Then the pool has given the request up, and would use the connection.
    tokio::time::sleep(LIMIT * 2).await;
    let mut wanted = acquire("held");
    tokio::time::sleep(LIMIT).await;
    network.hold("");
    network.pass();
    let free = free.await.expect("no panic").expect("it is free");
    let early = tokio::time::timeout(LIMIT * 4, &mut wanted).await;
    assert!(early.is_err(), "the lock is held: {early:?}");
    held.release().await.expect("held");
    let wanted = wanted.await.expect("no panic").expect("it is free now");
    drop((free, wanted));
}

/// The server does not answer the trial of a new connection. Fails if the pool uses this
/// connection.
#[tokio::test]
async fn a_connection_without_an_answer_to_its_trial_is_not_used() {
    let server = Server::start();
    let network = Proxy::start(server.address());
    network.hold("EVALSHA");
    // On a busy machine, an attempt may end before its trial.
    while network.counts().held == 0 {
        let hasty = LockPool::builder().url(network.url()).io_timeout(LIMIT);
        let error = hasty.connect().await.expect_err("no answer");
        assert!(error.is_unavailable(), "{error}");
    }
}

/// Fails if the first test passes although a late answer counts for the next request.
#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn an_answer_to_another_request_is_detected() {
    fails_with(
        "AnswersShifted",
        "connections::late_answers::a_late_answer_is_for_no_other_request",
    );
}
