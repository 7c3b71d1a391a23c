//! Callers whose threads and executors are out of the ordinary: they harm nobody else. The engine does a part of its work on callers' threads.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use leasehold::{LockError, LockGuard, LockPool};
use leasehold_tests::blocked::Blocked;
use leasehold_tests::on_both_stores;
use leasehold_tests::proxy::{Mode, Proxy};
use leasehold_tests::server::Server;
use leasehold_tests::stores::Store;
use leasehold_tests::wait;
use tokio::runtime::Runtime;

const TTL: Duration = Duration::from_secs(30);
/// Longer than any call here may take that does not hang.
const LIMIT: Duration = Duration::from_secs(10);

type Acquire = Pin<Box<dyn Future<Output = Result<LockGuard, LockError>> + Send>>;

on_both_stores!(
    a_guard_that_a_thread_keeps_to_its_very_end_is_released,
    a_waker_that_panics_harms_nobody_else,
);

fn acquire(pool: &LockPool, key: &str) -> Acquire {
    Box::pin(pool.lock(key).ttl(TTL).wait(LIMIT).acquire())
}

async fn is_free(pool: &LockPool, key: &str) {
    let guard = wait::within("the lock is had", LIMIT, acquire(pool, key)).await;
    guard.expect("free").release().await.expect("held");
}

/// Fails if a guard that is dropped while the thread is being torn down, when it cannot enter a runtime any more, is kept, or
/// takes the pool's engine with it.
async fn a_guard_that_a_thread_keeps_to_its_very_end_is_released(store: &Store) {
    thread_local! {
        static KEPT: RefCell<Option<LockGuard>> = const { RefCell::new(None) };
    }
    let pool = store.pool().await;
    let other = acquire(&pool, "other").await.expect("free");
    let guarded = pool.clone();
    let ended = tokio::task::spawn_blocking(move || {
        // A thread that knows of no runtime.
        let thread = thread::spawn(move || {
            KEPT.with(|kept| {
                // Begun before anything of the runtime's is, so ended after it.
                let mut kept = kept.borrow_mut();
                *kept = Some(without_executor(acquire(&guarded, "kept")).expect("free"));
            });
        });
        thread.join()
    });
    ended.await.expect("not aborted").expect("no panic");
    is_free(&pool, "kept").await;
    other.check().expect("the engine is well");
    other.release().await.expect("held");
}

/// Polls `future` on this thread, which has no executor.
fn without_executor<T>(mut future: Pin<Box<dyn Future<Output = T> + Send>>) -> T {
    struct Unpark(thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return done;
        }
        thread::park();
    }
}

/// A waker as of an executor that is gone.
#[derive(Default)]
struct Panics {
    woken: AtomicBool,
}

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        self.woken.store(true, Ordering::SeqCst);
        panic!("a waker that panics, as this test wants it");
    }
}

/// Fails if such a waker ends the call of somebody else, keeps those behind it from being woken, or takes the engine with it.
async fn a_waker_that_panics_harms_nobody_else(store: &Store) {
    let pool = store.pool().await;
    let first = acquire(&pool, "key").await.expect("free");
    let mut second = acquire(&pool, "key");
    let panics = Arc::new(Panics::default());
    let waker = Waker::from(Arc::clone(&panics));
    let polled = second.as_mut().poll(&mut Context::from_waker(&waker));
    assert!(polled.is_pending());
    // A call that looks for the server's answer itself wakes itself at once, and that is no news.
    panics.woken.store(false, Ordering::SeqCst);
    let mut third = acquire(&pool, "key");
    poll_fn(|cx| {
        assert!(third.as_mut().poll(cx).is_pending());
        Poll::Ready(())
    })
    .await;

    first.release().await.expect("held");
    wait::until_async("the second is woken", LIMIT, || {
        panics.woken.load(Ordering::SeqCst)
    })
    .await;
    let second = wait::within("the second has it", LIMIT, second).await;
    second.expect("served").release().await.expect("held");
    let third = wait::within("the third has it", LIMIT, third).await;
    third.expect("served").release().await.expect("held");
    is_free(&pool, "another").await;
}

/// Counts how often it is woken, by the thread that made it and by others.
struct Woken {
    own: ThreadId,
    by_itself: AtomicUsize,
    by_others: AtomicUsize,
}

impl Woken {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            own: thread::current().id(),
            by_itself: AtomicUsize::new(0),
            by_others: AtomicUsize::new(0),
        })
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        let by_itself = thread::current().id() == self.own;
        let times = if by_itself {
            &self.by_itself
        } else {
            &self.by_others
        };
        times.fetch_add(1, Ordering::SeqCst);
    }
}

impl Woken {
    fn looks(&self) -> usize {
        self.by_itself.load(Ordering::SeqCst)
    }
}

/// Polls a call until it has asked, and tells whether it goes on looking for the answer. What wakes itself may have let others go first
/// and asked nothing yet, so it is polled once more.
fn begin(call: &mut Acquire, woken: &Arc<Woken>) -> (Poll<Result<LockGuard, LockError>>, bool) {
    let waker = Waker::from(Arc::clone(woken));
    let mut cx = Context::from_waker(&waker);
    let mut polled = call.as_mut().poll(&mut cx);
    let before = woken.looks();
    if polled.is_pending() && 0 < before {
        polled = call.as_mut().poll(&mut cx);
    }
    (polled, before < woken.looks())
}

/// With one processor nobody looks.
fn somebody_looks() -> bool {
    thread::available_parallelism().is_ok_and(|threads| 1 < threads.get())
}

/// Fails if the answer to a caller that looks for it itself, and is then not polled for a while, is left lying.
#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_is_not_polled_again_is_told_all_the_same() {
    const LOOKED: usize = 24;
    let server = Server::start();
    // Later it would be asked again, and looked for what has come.
    let builder = LockPool::builder().url(server.url()).io_timeout(2 * LIMIT);
    let pool = builder.connect().await.expect("it answers");
    // With a lock held the engine has a time at which it looks anyway, and need not be called for another one.
    let held = acquire(&pool, "held").await.expect("free");
    let (mut calls, mut looked, mut slow) = (0, 0, 0);
    let began = Instant::now();
    // Where answers are slow, and these are, only some calls look.
    while calls < 100 || (looked < LOOKED && somebody_looks()) {
        assert!(began.elapsed() < 3 * LIMIT, "{looked} of {calls} looked");
        calls += 1;
        let mut call = acquire(&pool, "key");
        let woken = Woken::new();
        let (polled, looks) = begin(&mut call, &woken);
        let guard = if let Poll::Ready(guard) = polled {
            guard
        } else {
            looked += usize::from(looks);
            let asleep = Instant::now();
            wait::until_async("it is told", LIMIT, || {
                0 < woken.by_others.load(Ordering::SeqCst)
            })
            .await;
            slow += usize::from(looks && Duration::from_millis(200) < asleep.elapsed());
            call.await
        };
        guard.expect("free").release().await.expect("held");
    }
    held.release().await.expect("held");
    // The engine looks once in a second, too, whether or not it was told.
    assert!(slow <= LOOKED / 8, "{slow} of {looked}, of {calls} calls");
}

/// Fails if a call goes on looking for an answer that does not come, instead of sleeping.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_looks_for_long() {
    let server = Server::start();
    // After this time it would be asked again, and nobody look.
    let builder = LockPool::builder().url(server.url()).io_timeout(2 * LIMIT);
    let pool = builder.connect().await.expect("it answers");
    let began = Instant::now();
    loop {
        for _ in 0..50 {
            is_free(&pool, "key").await;
        }
        server.pause();
        let mut call = acquire(&pool, "key");
        let woken = Woken::new();
        let waker = Waker::from(Arc::clone(&woken));
        let mut before = 0;
        loop {
            let polled = call.as_mut().poll(&mut Context::from_waker(&waker));
            assert!(polled.is_pending(), "a server that stands still answers");
            let looks = woken.looks();
            if before == looks {
                break;
            }
            before = looks;
            assert!(began.elapsed() < LIMIT, "it is still looking");
        }
        server.resume();
        let guard = wait::within("the answer comes", LIMIT, call).await;
        guard.expect("free").release().await.expect("held");
        if 0 < before || !somebody_looks() {
            break;
        }
        assert!(began.elapsed() < LIMIT, "it never looks");
    }
}

/// Fails if callers go on looking for the answers of a server that is never quick.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_looks_where_answers_are_slow() {
    const PAIRS: usize = 64;
    let server = Server::start();
    let proxy = Proxy::start(server.address());
    let pool = LockPool::connect(&proxy.url()).await.expect("it answers");
    proxy.set(Mode::DelayReplies(Duration::from_millis(2)));
    for _ in 0..PAIRS / 2 {
        is_free(&pool, "key").await;
    }
    let mut looked = 0;
    for _ in 0..PAIRS {
        let mut call = acquire(&pool, "key");
        let woken = Woken::new();
        let waker = Waker::from(Arc::clone(&woken));
        let polled = call.as_mut().poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending(), "it is slow");
        looked += usize::from(0 < woken.looks());
        let guard = wait::within("it is told", LIMIT, call).await;
        guard.expect("free").release().await.expect("held");
    }
    // It is tried now and then.
    assert!(looked < PAIRS / 2, "{looked} of {PAIRS}");
}

/// Fails if callers that ask while another looks for the answers to all wait for that one, which is not polled again.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_waits_for_a_caller_that_is_not_polled_again() {
    const CALLS: usize = 8;
    let server = Server::start();
    let probe = server.probe();
    // What is not sent at once is not sent for long.
    let builder = LockPool::builder().url(server.url()).io_timeout(2 * LIMIT);
    let pool = builder.connect().await.expect("it answers");
    let (mut rounds, mut looked, mut slow) = (0, !somebody_looks(), 0);
    let began = Instant::now();
    while rounds < 50 || !looked {
        assert!(began.elapsed() < 3 * LIMIT, "looked: {looked}");
        rounds += 1;
        let woken: Vec<_> = (0..CALLS).map(|_| Woken::new()).collect();
        let mut calls = Vec::new();
        for (number, woken) in woken.iter().enumerate() {
            let mut call = acquire(&pool, &format!("{number}"));
            let (polled, looks) = begin(&mut call, woken);
            looked |= looks;
            match polled {
                Poll::Pending => calls.push((number, Some(call), None)),
                Poll::Ready(guard) => calls.push((number, None, Some(guard))),
            }
        }
        let asked = Instant::now();
        wait::until_async("all have their locks on the server", LIMIT, || {
            probe.keys("lock:?").len() == CALLS
        })
        .await;
        slow += usize::from(Duration::from_millis(500) < asked.elapsed());
        for (number, call, guard) in calls {
            let guard = match (call, guard) {
                (Some(call), _) => wait::within("it is told", LIMIT, call).await,
                (None, guard) => guard.expect("one of both"),
            };
            let guard = guard.unwrap_or_else(|error| panic!("{number}: {error}"));
            guard.release().await.expect("held");
        }
    }
    assert!(slow < rounds / 10, "{slow} of {rounds}");
}

/// Fails if callers of one runtime wait for another, where one of theirs looked for the answers to all when all its workers were blocked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_waits_for_a_runtime_that_is_blocked() {
    /// The length of the fault; the longest call in it is measured.
    const BLOCKED: Duration = Duration::from_millis(1500);
    /// A release that hears nothing ends after a second.
    const SLOW: Duration = Duration::from_millis(800);
    async fn pairs(pool: LockPool, key: String, end: Arc<AtomicBool>) -> Duration {
        let mut longest = Duration::ZERO;
        while !end.load(Ordering::SeqCst) {
            let asked = Instant::now();
            is_free(&pool, &key).await;
            longest = longest.max(asked.elapsed());
        }
        longest
    }
    let server = Server::start();
    let builder = LockPool::builder().url(server.url()).io_timeout(2 * LIMIT);
    let pool = builder.connect().await.expect("it answers");
    let end = Arc::new(AtomicBool::new(false));
    let other = Runtime::new().expect("a runtime");
    let theirs: Vec<_> = (0..24)
        .map(|number| other.spawn(pairs(pool.clone(), format!("b{number}"), Arc::clone(&end))))
        .collect();
    let mut slow = 0;
    for _ in 0..5 {
        let ours_end = Arc::new(AtomicBool::new(false));
        let ours: Vec<_> = (0..8)
            .map(|number| {
                let (pool, end) = (pool.clone(), Arc::clone(&ours_end));
                tokio::spawn(pairs(pool, format!("a{number}"), end))
            })
            .collect();
        // Both are in full swing.
        tokio::time::sleep(Duration::from_millis(100)).await;
        let blocked = Blocked::all(&other);
        tokio::time::sleep(BLOCKED).await;
        drop(blocked);
        ours_end.store(true, Ordering::SeqCst);
        let mut longest = Duration::ZERO;
        for task in ours {
            longest = longest.max(task.await.expect("no panic"));
        }
        slow += usize::from(SLOW < longest);
    }
    // The machine may have stood still once.
    assert!(slow <= 1, "{slow} of 5 times");
    end.store(true, Ordering::SeqCst);
    for task in theirs {
        task.await.expect("no panic");
    }
    other.shutdown_background();
}

/// Fails if calls that are answered before they have to wait keep the thread to themselves.
#[tokio::test]
async fn calls_that_are_answered_at_once_let_other_tasks_run() {
    for keys in [&["one"][..], &["one", "two"]] {
        others_run_beside_calls_for(keys).await;
    }
}

async fn others_run_beside_calls_for(keys: &[&str]) {
    const CALLS: usize = 20_000;
    let pool = LockPool::connect("memory://gives-way")
        .await
        .expect("a pool");
    let ran = Arc::new(AtomicUsize::new(0));
    let other = Arc::clone(&ran);
    // There is one thread, and it is this task's unless that lets it go.
    let other = tokio::spawn(async move {
        loop {
            other.fetch_add(1, Ordering::SeqCst);
            tokio::task::yield_now().await;
        }
    });
    for _ in 0..CALLS {
        let request = pool.lock_all(keys.iter().copied()).ttl(TTL).wait(LIMIT);
        let guard = request.acquire().await.expect("free");
        guard.release().await.expect("held");
    }
    other.abort();
    let ran = ran.load(Ordering::SeqCst);
    assert!(CALLS / 128 <= ran, "{ran} times in {CALLS} calls");
}

/// Fails if the time for which other tasks go first is not a part of a call's wait.
#[tokio::test]
async fn a_call_that_lets_others_go_first_waits_no_longer_for_that() {
    const WAIT: Duration = Duration::from_millis(800);
    let pool = LockPool::connect("memory://budget").await.expect("a pool");
    let held = acquire(&pool, "held").await.expect("free");
    let mut waiting = loop {
        let request = pool.lock("held").ttl(TTL).wait(WAIT);
        let mut call: Acquire = Box::pin(request.acquire());
        let woken = Woken::new();
        let waker = Waker::from(Arc::clone(&woken));
        let polled = call.as_mut().poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending(), "it is held");
        // One that has asked is woken by others.
        if 0 < woken.looks() {
            break call;
        }
        drop(call);
        is_free(&pool, "other").await;
    };
    // Nothing happens while it is left alone: what the call has to notice is the time.
    thread::sleep(WAIT);
    let began = Instant::now();
    let error = waiting.as_mut().await.expect_err("it is held");
    assert!(matches!(error, LockError::TimedOut { .. }), "{error}");
    let longer = began.elapsed();
    assert!(longer < WAIT / 2, "{longer:?} longer");
    held.release().await.expect("held");
}
