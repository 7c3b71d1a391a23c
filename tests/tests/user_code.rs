//! Tests of user code that the engine calls: a subscriber, a recorder, and wakers. This code may
//! block, panic, or use the pool itself. No lease and no time limit of a call may depend on this
//! code. The tests are in a separate program, because they install a subscriber and a recorder.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::JoinHandle;
use std::time::Duration;

use leasehold::{LockError, LockGuard, LockPool};
use leasehold_tests::server::Server;
use leasehold_tests::wait;
use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Recorder,
    SharedString, Unit,
};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

const LEASES: usize = 100;
const TTL: Duration = Duration::from_secs(1);
const SLOW: Duration = Duration::from_millis(20);
const LIMIT: Duration = Duration::from_secs(30);

/// The behaviour of the subscriber and the recorder when they are called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    Takes,
    /// Each log event takes `SLOW`.
    IsSlow,
    Blocks,
    Panics,
}

static MANNER: Mutex<Manner> = Mutex::new(Manner::Takes);
static CHANGED: Condvar = Condvar::new();
/// Numbers of received log events, counts, gauges and durations, counted in every `Manner`.
static EVENTS: AtomicU64 = AtomicU64::new(0);
static COUNTS: AtomicU64 = AtomicU64::new(0);
static GAUGES: AtomicU64 = AtomicU64::new(0);
static TIMES: AtomicU64 = AtomicU64::new(0);
/// Number of times that a span began or was entered.
static SPANS: AtomicU64 = AtomicU64::new(0);

/// Name of the only thread on which the subscriber counts spans, and so may block or panic in them.
const TRACED: &str = "traced";

fn manner() -> MutexGuard<'static, Manner> {
    MANNER.lock().unwrap_or_else(PoisonError::into_inner)
}

fn behave(manner_now: Manner) {
    *manner() = manner_now;
    CHANGED.notify_all();
}

/// Counts a call of the subscriber or the recorder. Then returns, blocks the calling thread, or
/// panics, as `MANNER` requests.
fn counted(count: &AtomicU64) {
    count.fetch_add(1, Ordering::SeqCst);
    let mut now = manner();
    while *now == Manner::Blocks {
        now = CHANGED.wait(now).unwrap_or_else(PoisonError::into_inner);
    }
    let panics = *now == Manner::Panics;
    drop(now);
    assert!(!panics, "as this test wants it");
}

struct Program;

impl Subscriber for Program {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("leasehold")
    }

    fn event(&self, _: &Event<'_>) {
        counted(&EVENTS);
        if *manner() == Manner::IsSlow {
            std::thread::sleep(SLOW);
        }
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        traced();
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {
        traced();
    }

    fn exit(&self, _: &Id) {}
}

impl CounterFn for Program {
    fn increment(&self, by: u64) {
        // A counter is announced by an increment of zero.
        if 0 < by {
            counted(&COUNTS);
        }
    }

    fn absolute(&self, _: u64) {}
}

impl GaugeFn for Program {
    fn increment(&self, _: f64) {}
    fn decrement(&self, _: f64) {}

    fn set(&self, _: f64) {
        counted(&GAUGES);
    }
}

impl HistogramFn for Program {
    fn record(&self, _: f64) {
        counted(&TIMES);
    }
}

/// Counts the start or the entry of a span, if the calling thread has the name `TRACED`.
fn traced() {
    if std::thread::current().name() == Some(TRACED) {
        counted(&SPANS);
    }
}

impl Recorder for Program {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, _: &Key, _: &metrics::Metadata<'_>) -> Counter {
        Counter::from_arc(Arc::new(Self))
    }

    fn register_gauge(&self, _: &Key, _: &metrics::Metadata<'_>) -> Gauge {
        Gauge::from_arc(Arc::new(Self))
    }

    fn register_histogram(&self, _: &Key, _: &metrics::Metadata<'_>) -> Histogram {
        Histogram::from_arc(Arc::new(Self))
    }
}

/// Fails if the engine or a caller waits for a blocking subscriber or recorder, or ends because one
/// of them panics.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blocking_or_panicking_log_costs_no_lease_or_budget() {
    let _alone = installed().await;
    let server = Server::start();
    for manner in [Manner::Blocks, Manner::Panics] {
        costs_nothing(&server, manner).await;
    }
}

/// Locks are lost faster than the subscriber takes the events of their losses. Fails if counts are
/// passed on only after the last event.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_are_passed_on_between_log_events() {
    let _alone = installed().await;
    let pool = LockPool::connect("memory://").await.expect("it opens");
    behave(Manner::IsSlow);
    let is_lost = || async {
        let guard = pool.lock("k").ttl(LIMIT).acquire().await.expect("free");
        pool.force_release("k").await.expect("it is held");
        guard.lost().await;
    };
    let events = calls_of(&EVENTS);
    while calls_of(&EVENTS) < events + 3 {
        is_lost().await;
    }
    let (events, counts) = (calls_of(&EVENTS), calls_of(&COUNTS));
    while calls_of(&COUNTS) == counts {
        is_lost().await;
        // Within ten seconds, counts are passed on anyway.
        assert!(calls_of(&EVENTS) < events + 100, "no counts");
    }
    behave(Manner::Takes);
}

/// Many log events wait for a slow subscriber, and nothing is counted for a while. Fails if the
/// next count is passed on only after the waiting events.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_count_does_not_wait_for_the_log() {
    const EVENTS_IN_ALL: u64 = 200;
    let _alone = installed().await;
    behave(Manner::IsSlow);
    let events = calls_of(&EVENTS);
    let mut pools = Vec::new();
    for _ in 0..EVENTS_IN_ALL {
        // Each of these pools logs a warning, and counts nothing.
        pools.push(LockPool::connect("memory://").await.expect("it opens"));
    }
    let taken = || events + EVENTS_IN_ALL / 4 <= calls_of(&EVENTS);
    wait::until_async("a quarter is taken", LIMIT, taken).await;
    let counts = calls_of(&COUNTS);
    let guard = pools[0].lock("k").ttl(LIMIT).acquire().await.expect("free");
    drop(guard);
    wait::until_async("it is counted", LIMIT, || counts < calls_of(&COUNTS)).await;
    let taken = calls_of(&EVENTS) - events;
    assert!(taken < EVENTS_IN_ALL * 3 / 4, "after {taken} events");
    behave(Manner::Takes);
}

/// Installs the subscriber and the recorder. With the returned guard, only one test at a time
/// controls their behaviour.
async fn installed() -> tokio::sync::MutexGuard<'static, ()> {
    static ALONE: LazyLock<tokio::sync::Mutex<()>> = LazyLock::new(|| {
        tracing::subscriber::set_global_default(Program).expect("the only one");
        metrics::set_global_recorder(Program).expect("the only one");
        tokio::sync::Mutex::default()
    });
    ALONE.lock().await
}

/// Runs `call` on a thread on which the subscriber counts spans.
fn on_the_traced_thread<T: Send + 'static>(
    call: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<T> {
    let runs = move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.expect("a runtime starts").block_on(call)
    };
    let thread = std::thread::Builder::new().name(TRACED.to_owned());
    thread.spawn(runs).expect("a thread starts")
}

/// Fails if a subscriber that blocks in a span delays another call or a renewal. Such a delay would
/// occur if a span began or was entered under the engine's mutex.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscriber_blocking_in_a_span_delays_only_its_caller() {
    let _alone = installed().await;
    let server = Server::start();
    let pool = wait::connected(LockPool::builder().url(server.url())).await;
    let held = pool.lock("held").ttl(TTL).watchdog();
    let held = held.acquire().await.expect("it is free");
    behave(Manner::Blocks);
    let before = calls_of(&SPANS);
    let lock = pool.lock("traced").ttl(10 * LIMIT);
    let call = on_the_traced_thread(lock.run(async { "the body runs" }));
    wait::until_async("it is in its span", LIMIT, || before < calls_of(&SPANS)).await;
    let other = pool.lock("another").ttl(TTL).acquire();
    let other = wait::within("another call is served", LIMIT, other).await;
    other
        .expect("it is free")
        .release()
        .await
        .expect("it is held");
    tokio::time::sleep(3 * TTL).await;
    assert_eq!(held.check(), Ok(()), "it is renewed");
    behave(Manner::Takes);
    assert_eq!(call.join().expect("no panic"), Ok("the body runs"));
    held.release().await.expect("it is held");
}

/// A subscriber blocks at a poll of the body until the next holder has the lock. Fails if the body
/// is polled then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscriber_blocking_past_the_lease_ends_the_call() {
    let _alone = installed().await;
    let pool = LockPool::connect("memory://").await.expect("it opens");
    let (begun, has_begun) = tokio::sync::oneshot::channel();
    let (went_on, has_gone_on) = channel();
    let lock = pool.lock("late").ttl(TTL);
    let call = on_the_traced_thread(lock.run(async move {
        begun.send(calls_of(&SPANS)).expect("the test waits");
        behave(Manner::Blocks);
        tokio::task::yield_now().await;
        went_on.send(()).expect("the test waits");
    }));
    let before = has_begun.await.expect("the body begins");
    wait::until_async("it is in its span", LIMIT, || before < calls_of(&SPANS)).await;
    let next = pool.lock("late").ttl(LIMIT).wait(LIMIT).acquire().await;
    let next = next.expect("the lease is over");
    behave(Manner::Takes);
    let ended = call.join().expect("no panic");
    assert!(matches!(ended, Err(LockError::Lost { .. })), "{ended:?}");
    assert!(has_gone_on.try_recv().is_err(), "polled after its lease");
    next.release().await.expect("held");
}

async fn costs_nothing(server: &Server, manner: Manner) {
    let probe = server.probe().namespace("lock:");
    let pool = wait::connected(LockPool::builder().url(server.url())).await;
    let mut leases = Vec::new();
    for number in 0..LEASES {
        let request = pool.lock(format!("{manner:?}-{number}")).ttl(TTL);
        leases.push(request.watchdog().acquire().await.expect("it is free"));
    }
    let (events, counts) = (calls_of(&EVENTS), calls_of(&COUNTS));
    let (gauges, times) = (calls_of(&GAUGES), calls_of(&TIMES));
    behave(manner);
    let taken_away = leases.pop().expect("there are some");
    probe.delete(&format!("{manner:?}-{}", LEASES - 1));
    wait::within("a loss is reported", LIMIT, taken_away.lost()).await;
    let counted =
        || events < calls_of(&EVENTS) && counts < calls_of(&COUNTS) || manner == Manner::Blocks;
    wait::until_async("the program is notified", LIMIT, counted).await;

    // The `wait` of this call ends while the subscriber and the recorder still block or panic. The
    // engine must check the time limit without waiting for them.
    let waits = pool.lock(format!("{manner:?}-0")).ttl(TTL);
    let refused = waits.wait(Duration::from_millis(200)).acquire();
    let refused = wait::within("a budget ends", LIMIT, refused).await;
    assert!(
        matches!(refused, Err(LockError::TimedOut { .. })),
        "{refused:?}"
    );
    tokio::time::sleep(3 * TTL).await;
    for lease in &leases {
        assert_eq!(lease.check(), Ok(()), "{manner:?}");
    }
    behave(Manner::Takes);
    wait::until_async("the log goes on", LIMIT, || events < calls_of(&EVENTS)).await;
    wait::until_async("the counts go on", LIMIT, || counts < calls_of(&COUNTS)).await;
    wait::until_async("the gauges go on", LIMIT, || gauges < calls_of(&GAUGES)).await;
    wait::until_async("the durations go on", LIMIT, || times < calls_of(&TIMES)).await;
    for lease in leases {
        assert_eq!(lease.release().await, Ok(()), "{manner:?}");
    }
}

fn calls_of(count: &AtomicU64) -> u64 {
    count.load(Ordering::SeqCst)
}

/// A waker that holds a lock of the pool and releases it when its last clone is dropped.
struct Owner(#[expect(dead_code, reason = "it is there to be dropped")] LockGuard);

impl Wake for Owner {
    fn wake(self: Arc<Self>) {}
}

/// A waker's drop releases a lock, which needs the engine's mutex. Fails if the engine holds the
/// mutex while it replaces the waker, because the thread would then deadlock.
#[test]
fn a_waker_may_release_the_awaited_lock() {
    let (done, is_done) = channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build();
        runtime.expect("a runtime starts").block_on(async {
            let pool = LockPool::connect("memory://").await.expect("it opens");
            released_by_a_waker(&pool).await;
        });
        done.send(()).expect("the test waits");
    });
    is_done.recv_timeout(LIMIT).expect("no deadlock");
}

async fn released_by_a_waker(pool: &LockPool) {
    let ttl = Duration::from_secs(60);
    let held = pool.lock("key").ttl(ttl).acquire().await.expect("free");
    let mut waits = pin!(pool.lock("key").ttl(ttl).wait(ttl).acquire());
    let owner = Waker::from(Arc::new(Owner(held)));
    let first = waits.as_mut().poll(&mut Context::from_waker(&owner));
    assert!(first.is_pending(), "it is held");
    drop(owner);
    // This poll replaces the waker, and therefore drops the guard.
    let second = waits.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    let granted = match second {
        Poll::Ready(granted) => granted,
        Poll::Pending => wait::within("it is granted", LIMIT, waits).await,
    };
    let _held = granted.expect("it came free");
}
