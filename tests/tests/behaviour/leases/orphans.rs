//! Tests of lost requests and replies. An abandoned acquire leaves no lock behind (an orphan), and
//! an acquire with a lost reply still succeeds.

use std::time::{Duration, Instant};

use leasehold::{LockError, LockPool, distributed_lock};
use leasehold_tests::lateness::Excuse;
use leasehold_tests::probe::Probe;
use leasehold_tests::proxy::{After, Mode, Proxy};
use leasehold_tests::random::Random;
use leasehold_tests::redis_probe::RedisProbe;
use leasehold_tests::server::Server;
use leasehold_tests::stores::NO_OUTAGE;
use leasehold_tests::wait;
use tokio::runtime::{Builder, Runtime};

use crate::bodies::is_released;

/// Time for which an orphan may exist beyond its ttl.
const SLACK: Duration = Duration::from_millis(200);
const LIMIT: Duration = Duration::from_secs(10);
const IO_TIMEOUT: Duration = Duration::from_millis(200);

fn runtime() -> Runtime {
    Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime starts")
}

async fn connect(url: &str) -> LockPool {
    wait::connected(LockPool::builder().url(url).io_timeout(IO_TIMEOUT)).await
}

#[distributed_lock(key = "<key>", ttl = "2s", pool = pool)]
async fn annotated(pool: &LockPool, key: &str) -> Result<(), LockError> {
    std::future::pending().await
}

/// Watches the key for `watch`. Returns the time from the start until the key was last seen.
fn last_seen(probe: &RedisProbe, key: &str, watch: Duration) -> Duration {
    let started = Instant::now();
    let mut last = Duration::ZERO;
    while started.elapsed() < watch {
        if probe.exists(key) {
            last = started.elapsed();
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    last
}

/// Fails if the lock of a dropped acquire is never removed, for example because the removal reaches
/// the server before the acquire. Also fails if more than 1 % of the locks live longer than 100 ms.
#[test]
fn an_acquisition_dropped_at_a_random_moment_leaves_nothing() {
    const TIMES: u32 = 100;
    const THREADS: u32 = 8;
    let mut random = Random::seeded("dropped at a random moment");
    let server = Server::start();
    let slow = std::thread::scope(|scope| {
        let threads = (0..THREADS).map(|thread| {
            let (server, random) = (&server, random.fork());
            scope.spawn(move || dropped_at_random(server, thread, TIMES, random))
        });
        let threads: Vec<_> = threads.collect();
        let slow = threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"));
        slow.sum::<u32>()
    });
    let excuse = Excuse::begin();
    let total = TIMES * THREADS;
    eprintln!("{slow} of {total} orphans lived longer than 100 ms");
    assert!(
        slow * 100 <= total,
        "{slow} of {total} lived longer than 100 ms"
    );
    let probe = server.probe();
    let gone = || probe.keys("lock:dropped-*").is_empty();
    if wait::try_until(Duration::from_secs(2) + SLACK, gone).is_none() {
        wait::until("all are gone", excuse.so_far(), gone);
    }
}

fn dropped_at_random(server: &Server, thread: u32, times: u32, mut random: Random) -> u32 {
    let probe = server.probe().namespace("lock:");
    let proxy = Proxy::start(server.address());
    let runtime = runtime();
    let pool = runtime.block_on(connect(&proxy.url()));
    proxy.set(Mode::Delay {
        least: Duration::from_millis(1),
        jitter: Duration::from_millis(3),
    });
    let mut slow = 0;
    for number in 0..times {
        let key = format!("dropped-{thread}-{number}");
        let patience = random.duration(Duration::from_millis(10));
        let call = annotated(&pool, &key);
        let ended = runtime.block_on(async { tokio::time::timeout(patience, call).await });
        // On a busy machine, the answer may take longer than `IO_TIMEOUT`. The call then fails as
        // unavailable.
        let unanswered = matches!(&ended, Ok(Err(error)) if error.is_unavailable());
        assert!(
            ended.is_err() || unanswered,
            "the body never ends: {ended:?}"
        );
        let excuse = Excuse::begin();
        let seen = last_seen(&probe, &key, Duration::from_millis(110));
        let slow_now = seen > Duration::from_millis(100);
        // A removal does not count as slow if it is late by less than the delay of the machine.
        let excused = || wait::try_until(excuse.so_far(), || !probe.exists(&key)).is_some();
        slow += u32::from(slow_now && !excused());
    }
    slow
}

/// A network failure interrupts an acquire, so the pool does not know whether the server has set
/// the lock. Fails if this lock is not removed.
#[test]
fn a_network_failure_at_a_random_moment_leaves_nothing() {
    let mut random = Random::seeded("fails at a random moment");
    let server = Server::start();
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let (server, random) = (&server, random.fork());
            scope.spawn(move || fails_at_random(server, thread, random));
        }
    });
}

fn fails_at_random(server: &Server, thread: u32, mut random: Random) {
    const TTL: Duration = Duration::from_secs(20);
    const DELAY: Mode = Mode::Delay {
        least: Duration::from_millis(1),
        jitter: Duration::from_millis(2),
    };
    let probe = server.probe().namespace("lock:");
    let proxy = Proxy::start(server.address());
    let runtime = runtime();
    let pool = runtime.block_on(connect(&proxy.url()));
    for number in 0..20 {
        let key = format!("fails-{thread}-{number}");
        proxy.set(DELAY);
        let fault = random.below(6);
        let phase = random.duration(Duration::from_millis(8));
        let patience = random.duration(Duration::from_millis(400));
        let acquire = pool.lock(&*key).ttl(TTL).acquire();
        let outcome = runtime.block_on(async {
            let fail = async {
                tokio::time::sleep(phase).await;
                fail(&proxy, fault);
            };
            let (outcome, ()) = tokio::join!(tokio::time::timeout(patience, acquire), fail);
            outcome
        });
        proxy.pass();
        if let Ok(Err(error)) = &outcome {
            assert!(!error.is_contention(), "refused by itself: {error}");
            assert!(error.is_unavailable(), "{error}");
        }
        drop(outcome);
        // The network works again, so a stalled request may still be executed now.
        let what = format!("{key} (fault {fault} after {phase:?}, patience {patience:?})");
        // This limit is shorter than the ttl, so only the pool can have removed the lock.
        let gone = || wait::until(&what, LIMIT, || !probe.exists(&key));
        gone();
        runtime.block_on(works_again(&pool, &key, &what));
        gone();
    }
}

fn fail(proxy: &Proxy, fault: u64) {
    match fault {
        0 => proxy.set(Mode::BlackHole),
        1 => proxy.set(Mode::Stall),
        2 => proxy.set(Mode::SwallowReplies),
        3 => proxy.set(Mode::SwallowRequests),
        4 => proxy.cut(),
        _ => proxy.half_open(),
    }
}

async fn works_again(pool: &LockPool, key: &str, what: &str) {
    let request = pool.lock(key).ttl(Duration::from_secs(20));
    let guard = request.wait(LIMIT).acquire().await;
    drop(guard.unwrap_or_else(|error| panic!("{what}: does not work again: {error}")));
}

/// The reply to an acquire is lost, so the pool repeats the acquire. Fails if the repetition is
/// refused because of the lock that the first attempt has set, or gets a second fence.
#[tokio::test]
async fn an_acquisition_with_a_lost_reply_still_succeeds() {
    let server = Server::start();
    tokio::join!(
        reply_lost(&server, After::Cut, 60, NO_OUTAGE),
        // The pool replaces a silent connection after a quarter of the `io_timeout`, here half a
        // second.
        reply_lost(&server, After::Silence, 12, Duration::from_secs(2)),
    );
}

async fn reply_lost(server: &Server, after: After, times: u64, io_timeout: Duration) {
    let probe = server.probe().namespace("lock:");
    let proxy = Proxy::start(server.address());
    let pool = LockPool::builder().url(proxy.url()).io_timeout(io_timeout);
    let pool = wait::connected(pool).await;
    let excuse = Excuse::begin();
    let mut missed = 0;
    for number in 0..times {
        let key = format!("reply-lost-{after:?}-{number}");
        proxy.lose_replies(&key, 1, after);
        let request = pool.lock(&*key).ttl(Duration::from_secs(20));
        let acquired = request.wait(Duration::from_secs(20)).acquire().await;
        let guard = acquired.unwrap_or_else(|error| panic!("{key}: {error}"));
        // On a busy machine, the pool may close its connection before the reply comes. The proxy
        // then loses no reply.
        missed = number + 1 - proxy.counts().lost;
        let in_time = excuse.so_far() < io_timeout / 4;
        assert!(missed == 0 || !in_time, "{key}: its reply was lost");
        let value = probe.value(&key).expect("it is locked");
        assert_eq!(Some(value.fence), guard.fence().map(u64::from), "{key}");
        let asked = Instant::now();
        guard.release().await.expect("the network is well again");
        is_released(&probe, &key, asked).await;
    }
    assert!(missed < times / 2, "{missed} replies were not lost");
}

/// The reply to a call without `wait` is lost after the server has set the lock. Fails if the call
/// reports that another call holds this lock.
#[tokio::test]
async fn a_lost_reply_of_a_single_try_is_never_contention() {
    const TIMES: u64 = 20;
    let server = Server::start();
    let probe = server.probe().namespace("lock:");
    let proxy = Proxy::start(server.address());
    let pool = connect(&proxy.url()).await;
    let excuse = Excuse::begin();
    for number in 0..TIMES {
        let key = format!("one-try-{number}");
        proxy.lose_replies(&key, 1, After::Cut);
        let request = pool.lock(&*key).ttl(Duration::from_secs(20));
        match request.acquire().await {
            Ok(guard) => drop(guard),
            Err(error) => assert!(!error.is_contention(), "{key}: {error}"),
        }
        // This limit is far shorter than the ttl, so only the pool can have removed the lock.
        wait::until_async(&key, LIMIT, || !probe.exists(&key)).await;
    }
    // On a busy machine, the pool may close its connection before the reply comes. The proxy then
    // loses no reply.
    let (lost, is_late) = (proxy.counts().lost, IO_TIMEOUT < excuse.so_far());
    assert!(TIMES / 2 < lost || is_late, "only {lost} replies were lost");
}

/// The network delays an acquire until after its removal. Fails if the pool does not repeat the
/// removal, so that the late lock stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_very_late_acquisition_is_removed() {
    let server = Server::start();
    let lanes = (0..8).map(|lane| {
        let (probe, proxy) = (server.probe(), Proxy::start(server.address()));
        tokio::spawn(arrives_late(
            probe,
            proxy,
            format!("late-{lane}"),
            lane % 2 == 0,
        ))
    });
    let lanes: Vec<_> = lanes.collect();
    for lane in lanes {
        lane.await.expect("as expected");
    }
}

/// Delays a request in the network until after its connection has ended. If `gives_up`, the caller
/// stops waiting before the request arrives. Otherwise, it gets the lock by a second request and
/// releases it first.
async fn arrives_late(probe: RedisProbe, proxy: Proxy, name: String, gives_up: bool) {
    // Delay of the request. It is longer than all steps that must happen before the request
    // arrives.
    const LATE: Duration = Duration::from_secs(8);
    let pool = LockPool::builder().url(proxy.url()).namespace(&name);
    let pool = wait::connected(pool).await;
    proxy.set(Mode::Delay {
        least: LATE,
        jitter: Duration::ZERO,
    });
    // The fence shows that the request has arrived, because each acquire of a free key stores a new
    // fence. The lock itself may be removed before a check finds it.
    let fence = || probe.get(&format!("{name}:%leasehold:fence"));
    let (mut last, before) = (fence(), proxy.counts().commands);
    let request = pool.lock("late").ttl(Duration::from_secs(20));
    let call = tokio::spawn(request.wait(Duration::from_secs(10)).acquire());
    let sent = || proxy.counts().commands > before;
    wait::until_async("the first request is on its way", LIMIT, sent).await;
    proxy.hang_up(Duration::ZERO);
    if gives_up {
        call.abort();
    }
    proxy.pass();
    let key = format!("{name}:late");
    match call.await {
        Ok(guard) => {
            let guard = guard.expect("by a second request");
            last = fence();
            let asked = Instant::now();
            guard.release().await.expect("still held");
            is_released(&probe, &key, asked).await;
        }
        Err(aborted) => assert!(aborted.is_cancelled()),
    }
    let arrives = || fence() != last;
    wait::until_async("the first request arrives", LATE + LIMIT, arrives).await;
    // This limit is far shorter than the ttl, so only the pool can have removed the lock.
    wait::until_async("it is removed", LIMIT, || !probe.exists(&key)).await;
}

#[distributed_lock(key = "<key>", ttl = "20s", wait = "10s", pool = pool)]
async fn returns(pool: &LockPool, key: &str, inside: impl FnOnce()) -> Result<u32, LockError> {
    inside();
    Ok(7)
}

/// Fails if the caller gets an error because of a failed release, or if the release is not
/// repeated.
#[tokio::test]
async fn a_failed_release_is_retried_without_an_error() {
    let server = Server::start();
    let probe = server.probe().namespace("lock:");
    for (number, fault) in [0, 2, 3, 4, 5].into_iter().enumerate() {
        let proxy = Proxy::start(server.address());
        let pool = connect(&proxy.url()).await;
        let key = format!("release-{number}");
        let (started, excuse) = (Instant::now(), Excuse::begin());
        let ended = returns(&pool, &key, || fail(&proxy, fault)).await;
        let took = started.elapsed();
        assert_eq!(ended, Ok(7), "fault {fault}");
        // A call waits for its release for at most a second. The rest of the bound is for a busy
        // machine.
        let most = Duration::from_millis(1_300) + excuse.so_far();
        assert!(took < most, "fault {fault}: {took:?}");
        proxy.pass();
        let limit = Duration::from_secs(15).saturating_sub(started.elapsed());
        wait::until_async("released before it expires", limit, || !probe.exists(&key)).await;
    }
}
