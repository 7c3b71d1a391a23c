//! Tests that a lock can be released even if its queue does not work because the server's memory is
//! full.

use futures_util::future::join_all;
use leasehold::LockError;
use leasehold_tests::redis_probe::RedisProbe;
use leasehold_tests::server::Server;
use leasehold_tests::wait;
use redis::cmd;

use super::{LONG, Line, SOON, TTL, connect, held, queued, take};

/// Waits until the value of `key` no longer begins with `token`. If `token` is empty, waits until
/// there is no value. On a busy machine, a call may return before the store has executed its
/// release.
async fn is_released(probe: &RedisProbe, key: &str, token: &str) {
    let released = || {
        let left = probe.get(key);
        left.is_none_or(|value| !value.starts_with(token))
    };
    wait::until_async(key, SOON, released).await;
}

fn max_memory(probe: &RedisProbe, bytes: u64) {
    let mut set = cmd("CONFIG");
    set.arg("SET").arg("maxmemory").arg(bytes);
    set.arg("maxmemory-policy").arg("noeviction");
    probe.run::<()>(&set);
}

/// Requirement 17 of the fault harness. Fails if a release needs memory because another process
/// waits for the lock.
#[tokio::test]
async fn a_release_to_a_waiting_process_needs_no_memory() {
    let (server, probe, held) = held("full").await;
    let pool = connect(&server.url()).await;
    let request = pool.lock("full").ttl(TTL).wait(LONG);
    let waiting = tokio::spawn(wait::started(request.acquire()).await);
    wait::until_async("it waits", LONG, || queued(&probe, "full") == 1).await;
    let token = probe.value("lock:full").expect("it is held").token;

    max_memory(&probe, 1);
    held.release().await.expect("still held");
    is_released(&probe, "lock:full", &token).await;
    // The error of the waiting call names full memory as the reason.
    let refused = wait::within("it is refused", LONG, waiting).await;
    let error = refused
        .expect("no panic")
        .expect_err("no memory for a lock");
    let LockError::Unavailable { source } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(source.code(), "OOM");

    max_memory(&probe, 0);
    let request = pool.lock("full").ttl(TTL).wait(LONG);
    let again = wait::within("it is free", SOON, request.acquire()).await;
    again
        .expect("no call has it")
        .release()
        .await
        .expect("held");
}

/// Fails if full memory prevents a release sent together with the next call of its process. That
/// call has another ttl, so the lock is not passed to it directly. The server checks its memory
/// only before the first write of a script. Here this write is the removal of the lock, which needs
/// no memory, so the next call gets the lock, too.
#[tokio::test]
async fn a_release_is_not_refused_with_the_next_call() {
    let server = Server::start();
    let probe = server.probe();
    let pool = connect(&server.url()).await;
    let held = take(&pool, "turn").await;
    let before = held.fence();
    let request = pool.lock("turn").ttl(2 * TTL).wait(LONG);
    let waiting = tokio::spawn(wait::started(request.acquire()).await);

    max_memory(&probe, 1);
    held.release().await.expect("still held");
    let next = wait::within("it is served", LONG, waiting).await;
    let next = next.expect("no panic").expect("the lock was free");
    assert!(before < next.fence());
    next.release().await.expect("still held");
    is_released(&probe, "lock:turn", "").await;
}

/// Like the test above, while another process is also in the queue. Fails if the release is
/// refused, or if the next call keeps waiting.
#[tokio::test]
async fn a_release_with_two_waiters_is_not_refused() {
    let server = Server::start();
    let probe = server.probe();
    let (pool, other) = (connect(&server.url()).await, connect(&server.url()).await);
    let held = take(&pool, "turn").await;
    let token = probe.value("lock:turn").expect("it is held").token;
    let mut waiting = Vec::new();
    for pool in [&other, &pool] {
        let request = pool.lock("turn").ttl(2 * TTL).wait(LONG);
        waiting.push(tokio::spawn(wait::started(request.acquire()).await));
    }
    wait::until_async("it waits", LONG, || queued(&probe, "turn") == 1).await;

    max_memory(&probe, 1);
    held.release().await.expect("still held");
    is_released(&probe, "lock:turn", &token).await;
    // Each call gets the lock or is refused, and each call with the lock releases it.
    for call in waiting {
        let got = wait::within("it is notified", LONG, call).await;
        match got.expect("no panic") {
            Ok(guard) => guard.release().await.expect("still held"),
            Err(error) => assert!(error.is_unavailable(), "{error}"),
        }
    }

    max_memory(&probe, 0);
    let request = pool.lock("turn").ttl(TTL).wait(LONG);
    let again = wait::within("it is free", SOON, request.acquire()).await;
    again
        .expect("no call has it")
        .release()
        .await
        .expect("held");
}

/// Fails if a call is refused because the release sent together with it is refused.
#[tokio::test]
async fn a_refused_release_does_not_refuse_the_next_call() {
    let server = Server::start();
    let probe = server.probe();
    let replicas = |count: u32| {
        let mut set = cmd("CONFIG");
        set.arg("SET").arg("min-replicas-to-write").arg(count);
        probe.run::<()>(&set);
    };
    let pool = connect(&server.url()).await;
    let held = take(&pool, "refused").await;
    let request = pool.lock("refused").ttl(2 * TTL).wait(LONG);
    let waiting = tokio::spawn(wait::started(request.acquire()).await);

    replicas(1);
    // An error is ignored, because the release is repeated in the background.
    let _ = held.release().await;
    replicas(0);
    let next = wait::within("the release is repeated", LONG, waiting).await;
    let next = next.expect("no panic").expect("it goes on to wait");
    next.release().await.expect("still held");
}

/// Simultaneous calls are sent in one script. Fails if a call for a held lock, which needs no
/// memory, gets the error of the calls that need memory.
#[tokio::test]
async fn calls_without_memory_needs_are_not_refused() {
    let (server, probe, held) = held("taken").await;
    let pool = connect(&server.url()).await;
    max_memory(&probe, 1);
    for round in 0..10 {
        let asked = (0..40).map(|number| {
            let key = match number {
                39 => "taken".to_owned(),
                _ => format!("free:{round}:{number}"),
            };
            pool.lock(key).ttl(TTL).acquire()
        });
        for (number, got) in join_all(asked).await.into_iter().enumerate() {
            let error = got.expect_err("no memory for a lock, or it is taken");
            let expected = number == 39;
            assert_eq!(error.is_contention(), expected, "{number}: {error}");
            assert_eq!(error.is_unavailable(), !expected, "{number}: {error}");
        }
    }
    held.release().await.expect("still held");
}

/// Fails if other data under the key of the queue prevents the release of a lock.
#[tokio::test]
async fn other_data_at_the_queue_key_does_not_block_a_release() {
    // This text is as long as a queue record. The part where a record has its time looks like a
    // number with an exponent, which Lua's `tonumber` accepts.
    let number = format!("{}+12345e+173224", "0".repeat(32));
    let spoil: [(&str, &[&str]); 4] = [
        ("SET", &[number.as_str()]),
        ("RPUSH", &["some", "list"]),
        (
            "SET",
            &["not a queue, but longer than a record of one would be"],
        ),
        ("SET", &["short"]),
    ];
    for (command, data) in spoil {
        let (server, probe, held) = held("spoiled").await;
        let mut put = cmd(command);
        probe.run::<()>(put.arg("lock:%leasehold:queue:lock:spoiled").arg(data));
        held.release().await.expect("still held");
        println!("{command}");
        is_released(&probe, "lock:spoiled", "").await;
        let pool = connect(&server.url()).await;
        let held = take(&pool, "spoiled").await;
        let mut put = cmd(command);
        probe.run::<()>(put.arg("lock:%leasehold:queue:lock:spoiled").arg(data));
        let mut line = Line::new("spoiled");
        line.join(&connect(&server.url()).await, "next").await;
        held.release().await.expect("still held");
        line.served().await;
    }
}
