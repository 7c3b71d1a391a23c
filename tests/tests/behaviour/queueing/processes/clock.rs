//! Tests in which the server's clock is set forward and back while processes queue. No call may
//! wait longer for this reason, and fences must grow.

use std::time::{Duration, Instant};

use leasehold_tests::proxy::{Mode, Proxy};
use leasehold_tests::redis_probe::RedisProbe;
use leasehold_tests::server::{Server, ServerOptions};
use leasehold_tests::server_clock::ServerClock;
use leasehold_tests::wait;

use super::dead_processes::waiting;
use super::{CLAIM, LONG, Line, SOON, TTL, connect, queued, take};

const HOUR: i64 = 3_600;

fn start() -> (ServerClock, Server, RedisProbe) {
    let clock = ServerClock::new();
    let server = ServerOptions::new().clock(&clock).start();
    let probe = server.probe();
    (clock, server, probe)
}

/// Sets the clock back while a stopped process waits. Fails if the process counts as alive until
/// the clock shows again the time of its last request.
#[tokio::test]
async fn stopped_processes_with_future_times_expire() {
    let (clock, server, probe) = start();
    let held = take(&connect(&server.url()).await, "dead").await;
    let mut workers = waiting(&server, &probe, 3).await;
    for worker in &mut workers {
        worker.process().pause();
    }
    clock.set(-HOUR);
    let mut line = Line::new("dead");
    line.join(&connect(&server.url()).await, "next").await;
    let released = Instant::now();
    held.release().await.expect("still held");
    line.served().await;
    let took = released.elapsed();
    assert!(took < SOON, "{took:?}");
}

/// Like the test above, for readers that arrive behind a stopped writer while another reader is
/// inside.
#[tokio::test]
async fn readers_pass_a_stopped_writer_with_a_future_time() {
    let (clock, server, probe) = start();
    let pool = connect(&server.url()).await;
    let reader = pool.lock("dead").ttl(TTL).shared().acquire().await;
    let mut workers = waiting(&server, &probe, 1).await;
    workers[0].process().pause();
    clock.set(-HOUR);
    let pool = connect(&server.url()).await;
    let next = pool.lock("dead").ttl(TTL).shared().wait(LONG).acquire();
    let next = wait::within("the next reader", SOON, next).await;
    for guard in [reader, next] {
        guard
            .expect("two read")
            .release()
            .await
            .expect("still held");
    }
}

/// Fails if a reserved lock stays reserved for too long after the server's clock was set back. The
/// reservation ends when its key expires. By the changed clock, this time is far in the future.
#[tokio::test]
async fn a_claim_with_a_future_end_expires() {
    let (clock, server, probe) = start();
    let held = take(&connect(&server.url()).await, "dead").await;
    let mut workers = waiting(&server, &probe, 1).await;
    workers[0].process().pause();
    let released = Instant::now();
    held.release().await.expect("still held");
    let handed = probe.get("lock:dead");
    // On a busy machine, the value may be read only after the reservation has ended.
    let over = CLAIM <= released.elapsed();
    clock.set(-HOUR);
    assert!(over || handed.is_some_and(|value| value.ends_with(":claim")));
    let pool = connect(&server.url()).await;
    for shared in [false, true] {
        let request = pool.lock("dead").ttl(TTL).wait(LONG);
        let request = if shared { request.shared() } else { request };
        let next = wait::within("the next", SOON, request.acquire()).await;
        next.expect("free").release().await.expect("still held");
        probe.overwrite("lock:dead", &format!("{}:claim", "a".repeat(32)), LONG * 60);
    }
    let all = pool
        .lock_all(["dead", "other"])
        .ttl(TTL)
        .wait(LONG)
        .acquire();
    let all = wait::within("two at once", SOON, all).await;
    all.expect("free").release().await.expect("still held");
}

/// Fails if a call waits because of queue records of processes that never existed. These records
/// have impossible times.
#[tokio::test]
async fn queue_records_without_a_process_are_ignored() {
    let (_clock, server, probe) = start();
    let pool = connect(&server.url()).await;
    let reader = pool.lock("junk").ttl(TTL).shared().acquire().await;
    let record = format!("{}-{}", "b".repeat(32), "9".repeat(13));
    let queue = "lock:%leasehold:queue:lock:junk";
    probe.overwrite(queue, &record.repeat(50), LONG * 60);
    let next = pool.lock("junk").ttl(TTL).shared().wait(LONG).acquire();
    let next = wait::within("the next reader", SOON, next).await;
    for guard in [reader, next] {
        guard
            .expect("two read")
            .release()
            .await
            .expect("still held");
    }
    let free = || probe.get("lock:junk").is_none();
    wait::until_async("the readers have left", SOON, free).await;
    probe.overwrite(queue, &record.repeat(50), LONG * 60);
    take(&pool, "junk")
        .await
        .release()
        .await
        .expect("still held");
    let clean = || probe.get(queue).is_none();
    wait::until_async("nothing is left of them", SOON, clean).await;
}

/// Sets the clock back while a reader is inside, and then cuts the reader's connection. Fails if
/// the reader keeps a writer out for longer than its lease.
#[tokio::test]
async fn a_share_renewed_after_a_clock_change_expires() {
    let (clock, server, probe) = start();
    let proxy = Proxy::start(server.address());
    let short = Duration::from_secs(6);
    let pool = connect(&proxy.url()).await;
    let reader = pool.lock("k").ttl(short).watchdog().shared().acquire();
    let reader = reader.await.expect("free");
    clock.set(-HOUR);
    let renewed = || probe.ttl("lock:k").is_some_and(|left| left <= short);
    wait::until_async("it is renewed", SOON, renewed).await;
    reader.check().expect("still held");
    proxy.set(Mode::Refuse);
    proxy.cut();
    let pool = connect(&server.url()).await;
    let writer = pool.lock("k").ttl(TTL).wait(LONG).acquire();
    let writer = wait::within("the writer", SOON, writer).await;
    writer.expect("free").release().await.expect("still held");
}

/// Sets the clock back or forward by an hour. Fails if a fence does not grow, or if a waiting
/// process does not get the lock.
#[tokio::test]
async fn fences_grow_and_waiters_are_served_over_clock_changes() {
    let (clock, server, probe) = start();
    let pool = connect(&server.url()).await;
    let (mut last, mut before) = (None, 0);
    for offset in [0, -HOUR, HOUR, -HOUR, 0] {
        let held = take(&pool, "k").await;
        assert!(last < held.fence(), "{last:?} before {:?}", held.fence());
        let mut line = Line::new("k");
        line.join(&connect(&server.url()).await, "next").await;
        let waits = || queued(&probe, "k") == 1;
        wait::until_async("it waits", LONG, waits).await;
        last = held.fence();
        clock.set(offset);
        // If the clock was set forward, the lease has ended by now.
        let released = held.release().await;
        assert!(released.is_ok() || before < offset, "{released:?}");
        before = offset;
        let order = wait::within("it is served", SOON, line.served()).await;
        assert_eq!(order, ["next"]);
    }
}
