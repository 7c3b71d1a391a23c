//! Tests of the order in which waiting calls get a lock: first come, first served.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use leasehold::LockError;
use leasehold_tests::probe::Probe;
use leasehold_tests::server::Server;
use leasehold_tests::stores::Store;
use leasehold_tests::{on_stores, wait};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::{LONG, Line, TTL, connect, connect_with, queued, settle, take};

/// Fails if waiting processes get a lock in another order than that in which they began to wait.
async fn processes_are_served_in_order_of_their_waits(store: &Store) {
    const KEY: &str = "queue-of-processes";
    let held = take(&connect(&store.url).await, KEY).await;
    let mut line = Line::new(KEY);
    let names = ["a", "b", "c", "d", "e", "f"];
    for name in names {
        line.join(&connect(&store.url).await, name).await;
    }
    let released = Instant::now();
    held.release().await.expect("still held");
    line.served_as(released, &names).await;
}

on_stores!(memory redis sentinel cluster postgres: (
    processes_are_served_in_order_of_their_waits,
));

/// Fails if a process goes to the end of the queue when it repeats its request, which it does from
/// time to time.
#[tokio::test]
async fn a_repeated_request_keeps_its_place() {
    let (server, _probe, held) = super::held("again").await;
    let mut line = Line::new("again");
    // With `make_way_after` at zero, the first process never leaves the key free for clients
    // without a queue. On a busy machine, it could otherwise do so.
    let first = connect_with(&server.url(), |fairness| {
        fairness.make_way_after(Duration::ZERO)
    })
    .await;
    let second = connect(&server.url()).await;
    line.join(&first, "first").await;
    line.join(&second, "second").await;
    for _ in 0..5 {
        line.join(&first, "first").await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let released = Instant::now();
    held.release().await.expect("still held");
    let mut expected = vec!["first"; 6];
    expected.push("second");
    line.served_as(released, &expected).await;
}

/// A client without leasehold holds the lock, and sends no message at its release. Fails if the
/// waiting processes do not get the lock in the order of the queue.
#[tokio::test]
async fn the_queue_works_behind_other_clients() {
    let server = Server::start();
    let probe = server.probe().namespace("lock:");
    let late = connect(&server.url()).await;
    for _ in 0..5 {
        let free = || probe.take("foreign", TTL);
        wait::until_async("it is free", LONG, free).await;
        let mut line = Line::new("foreign");
        line.stay = Duration::from_millis(100);
        for name in ["a", "b", "c"] {
            line.join(&connect(&server.url()).await, name).await;
        }
        assert!(probe.untouched("foreign"));
        let released = Instant::now();
        probe.give_back("foreign");
        // This attempt follows the release directly, so it would get the lock if it could overtake
        // the queue. On a busy machine it may come after all waiting processes, and then succeeds.
        match late.lock("foreign").ttl(TTL).acquire().await {
            Ok(guard) => {
                let before = line.served.lock().expect("no panic").len();
                assert_eq!(before, 3, "three processes were there before");
                guard.release().await.expect("still held");
            }
            Err(error) => assert!(matches!(error, LockError::Contended { .. }), "{error:?}"),
        }
        line.served_as(released, &["a", "b", "c"]).await;
    }
}

/// Fails if a call with a single attempt gets a lock before a process that waits for it.
#[tokio::test]
async fn a_single_try_does_not_overtake() {
    let (server, probe, held) = super::held("single").await;
    let single = connect(&server.url()).await;
    let mut line = Line::new("single");
    line.stay = Duration::from_millis(5);
    for name in ["a", "b", "c", "d"] {
        line.join(&connect(&server.url()).await, name).await;
    }
    let refused = Arc::new(Notify::new());
    let notifies = Arc::clone(&refused);
    let tries = tokio::spawn(async move {
        let mut got = 0;
        loop {
            let one = single.lock("single").ttl(TTL).acquire().await;
            if one.is_ok() {
                return got;
            }
            got += 1;
            notifies.notify_one();
            tokio::task::yield_now().await;
        }
    });
    wait::within("it tries", LONG, refused.notified()).await;
    let released = Instant::now();
    held.release().await.expect("still held");
    line.served_as(released, &["a", "b", "c", "d"]).await;
    // An attempt succeeds only after all waiting calls have had the lock, so the queue is then
    // empty.
    let refused = tokio::time::timeout(LONG, tries).await.expect("it is free");
    assert!(refused.expect("no panic") > 0, "it never met another");
    assert_eq!(queued(&probe, "single"), 0);
}

/// Fails if a later holder gets a smaller fence than an earlier one. This could happen because each
/// process reserves fences for its later calls.
#[tokio::test]
async fn fences_grow_under_contention() {
    let server = Server::start();
    for url in [&*server.url(), "memory://queue-fences"] {
        let fences = Arc::new(Mutex::new(Vec::new()));
        let mut calls = JoinSet::new();
        for _ in 0..4 {
            let pool = connect(url).await;
            for _ in 0..8 {
                let (pool, fences) = (pool.clone(), Arc::clone(&fences));
                calls.spawn(async move {
                    for _ in 0..50 {
                        let request = pool.lock("fences").ttl(TTL).wait(LONG);
                        let guard = request.acquire().await.expect("its turn comes");
                        fences.lock().expect("no panic").push(guard.fence());
                        guard.release().await.expect("still held");
                    }
                });
            }
            settle(&pool).await;
        }
        while let Some(call) = calls.join_next().await {
            call.expect("no panic");
        }
        let fences = fences.lock().expect("no panic");
        assert_eq!(fences.len(), 4 * 8 * 50);
        assert!(fences.is_sorted_by(|a, b| a < b), "{url}");
    }
}
