//! Tests that all calls get their answers on any runtime, even if the runtime that reads the
//! answers is blocked or dropped.
//!
//! A task on the runtime of one caller reads the answers for all callers. These tests block that
//! runtime, drop it, or make calls from threads without a runtime.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use leasehold::LockPool;
use leasehold_tests::blocked::Blocked;
use leasehold_tests::lateness::Excuse;
use leasehold_tests::redis_probe::RedisProbe;
use leasehold_tests::server::{Server, ServerOptions};
use leasehold_tests::wait;
use redis::cmd;
use tokio::runtime::{Builder, Runtime};

const TTL: Duration = Duration::from_secs(60);
/// Time limit for one call. A call takes longer only if it hangs.
const LIMIT: Duration = Duration::from_secs(20);

async fn pool(server: &Server) -> LockPool {
    pool_at(&server.url()).await
}

/// Returns a pool on the store at `url`.
pub(crate) async fn pool_at(url: &str) -> LockPool {
    // The timeout is so long that the pool does not repeat a request during the test, even if its
    // answer is not read.
    let builder = LockPool::builder().url(url).io_timeout(2 * LIMIT);
    builder.connect().await.expect("it answers")
}

async fn pair(pool: &LockPool, key: &str) {
    let request = pool.lock(key).ttl(TTL).wait(LIMIT);
    let guard = wait::within("the lock is had", 2 * LIMIT, request.acquire()).await;
    guard.expect("free").release().await.expect("held");
}

/// Returns a runtime whose only thread is the calling one.
pub(crate) fn small() -> Runtime {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime")
}

/// Lowers the priority of this thread below the priority of the pool's keeper thread. The keeper
/// then sends the requests of this thread.
fn lower_this_thread() {
    rustix::process::nice(1).expect("each thread may be nicer");
}

/// Threads of low and of normal priority take locks through one pool. Fails if a call hangs, or if
/// a lock is left behind.
#[test]
fn low_priority_threads_get_locks_beside_normal_ones() {
    let server = Server::start();
    let usual = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    let usual = usual.expect("a runtime");
    let pool = usual.block_on(pool(&server));
    let low = Builder::new_multi_thread()
        .worker_threads(2)
        .on_thread_start(lower_this_thread)
        .enable_all()
        .build();
    let low = low.expect("a runtime");
    let calling: Vec<_> = (0..12)
        .map(|number| {
            let (runtime, pool) = (if number % 2 == 0 { &usual } else { &low }, pool.clone());
            runtime.spawn(async move {
                for _ in 0..100 {
                    pair(&pool, &format!("p-{}", number / 4)).await;
                }
            })
        })
        .collect();
    for calls in calling {
        usual.block_on(calls).expect("no panic");
    }
    drop(low);
    let probe = server.probe();
    wait::until("nothing is left", LIMIT, || {
        probe.keys("lock:*-*").is_empty()
    });
}

/// The runtime that should read the answers is idle. Fails if a call on a thread of low priority
/// waits until this runtime reads its answer.
#[test]
fn a_low_priority_thread_does_not_wait_for_an_idle_listener() {
    /// Bound for five pairs of an acquire and a release. The keeper sends requests for threads of
    /// low priority, and checks every 20 ms for their answers. Without these checks, each pair
    /// would take more than a second.
    const SLOW: Duration = Duration::from_secs(4);
    let server = Server::start();
    let idle = small();
    let pool = idle.block_on(pool(&server));
    // This call makes the runtime `idle` the reader of the answers. The runtime then reads none,
    // because it is not polled again.
    idle.block_on(pair(&pool, "first"));
    let (mut took, excuse) = (Duration::ZERO, Excuse::begin());
    for _ in 0..5 {
        // The keeper stops its checks during this sleep, because no request is in flight. The next
        // request must start them again.
        thread::sleep(Duration::from_millis(200));
        thread::scope(|scope| {
            let low = scope.spawn(|| {
                lower_this_thread();
                let began = Instant::now();
                small().block_on(pair(&pool, "second"));
                began.elapsed()
            });
            took += low.join().expect("no panic");
        });
    }
    assert!(took < SLOW + excuse.so_far(), "{took:?}");
}

/// A thread of low priority begins a call, whose request the keeper must send. Another thread drops
/// the call. Fails if the keeper sends the request after the drop, because the lock would be left
/// behind.
#[test]
fn a_call_dropped_on_another_thread_sends_no_request() {
    let server = Server::start();
    let pool = small().block_on(pool(&server));
    for number in 0..200 {
        let key = format!("k-{number}");
        let request = pool.lock(&key).ttl(TTL);
        let mut call = Box::pin(async move { request.acquire().await });
        thread::scope(|scope| {
            let polled = scope.spawn(|| {
                lower_this_thread();
                let _ = call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            });
            polled.join().expect("no panic");
        });
        drop(call);
    }
    let probe = server.probe();
    wait::until("nothing is left", LIMIT, || {
        probe.keys("lock:*-*").is_empty()
    });
}

/// Fails if callers of one runtime wait because the task that reads the answers is on another
/// runtime, whose workers are all blocked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_waits_for_a_blocked_runtime() {
    /// A call that takes longer counts as late. A release waits one second for its answer, so a
    /// release without an answer is late.
    const SLOW: Duration = Duration::from_millis(800);
    let server = Server::start();
    let blocked = Duration::from_millis(1500);
    calls_go_on_beside_a_blocked_runtime(&pool(&server).await, blocked, SLOW).await;
}

/// Blocks all workers of another runtime, which reads the answers, for `length`, in five rounds.
/// Fails if calls on the test's runtime wait for the blocked runtime. A round counts as late if one
/// of these calls takes longer than `slow`. Runs on any store.
pub(crate) async fn calls_go_on_beside_a_blocked_runtime(
    pool: &LockPool,
    length: Duration,
    slow: Duration,
) {
    async fn pairs(pool: LockPool, key: String, end: Arc<AtomicBool>) -> Duration {
        let mut longest = Duration::ZERO;
        while !end.load(Ordering::SeqCst) {
            let asked = Instant::now();
            pair(&pool, &key).await;
            longest = longest.max(asked.elapsed());
        }
        longest
    }
    let end = Arc::new(AtomicBool::new(false));
    let other = Runtime::new().expect("a runtime");
    // The runtime of the first call reads the answers.
    let first = pool.clone();
    let received = other.spawn(async move { pair(&first, "first").await });
    received.await.expect("no panic");
    let theirs: Vec<_> = (0..24)
        .map(|number| other.spawn(pairs(pool.clone(), format!("b{number}"), Arc::clone(&end))))
        .collect();
    let mut late = 0;
    for _ in 0..5 {
        let ours_end = Arc::new(AtomicBool::new(false));
        let ours: Vec<_> = (0..8)
            .map(|number| {
                let (pool, end) = (pool.clone(), Arc::clone(&ours_end));
                tokio::spawn(pairs(pool, format!("a{number}"), end))
            })
            .collect();
        // This sleep gives the callers of both runtimes time to take their first locks.
        tokio::time::sleep(Duration::from_millis(100)).await;
        let (blocked, excuse) = (Blocked::all(&other), Excuse::begin());
        tokio::time::sleep(length).await;
        drop(blocked);
        ours_end.store(true, Ordering::SeqCst);
        let mut longest = Duration::ZERO;
        for task in ours {
            longest = longest.max(task.await.expect("no panic"));
        }
        late += usize::from(slow + excuse.so_far() < longest);
    }
    // One late round is allowed, because the machine may have stalled once.
    assert!(late <= 1, "{late} of 5 times");
    end.store(true, Ordering::SeqCst);
    for task in theirs {
        task.await.expect("no panic");
    }
    other.shutdown_background();
}

/// Fails if callers wait for one blocked worker of their runtime while another worker is free.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_waits_for_one_blocked_worker() {
    const TASKS: usize = 8;
    const PAIRS: usize = 50;
    let server = Server::start();
    let pool = pool(&server).await;
    for _ in 0..5 {
        let over = Arc::new(AtomicBool::new(false));
        let blocks = Arc::clone(&over);
        let blocked = tokio::spawn(async move {
            while !blocks.load(Ordering::SeqCst) {
                thread::sleep(Duration::from_millis(1));
            }
        });
        let tasks: Vec<_> = (0..TASKS)
            .map(|number| {
                let pool = pool.clone();
                tokio::spawn(async move {
                    for _ in 0..PAIRS {
                        pair(&pool, &format!("{number}")).await;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("no panic");
        }
        over.store(true, Ordering::SeqCst);
        blocked.await.expect("no panic");
    }
}

/// Runtimes are dropped while their calls wait for answers. Fails if a lock of such a call stays on
/// the server, or if the calls of the next runtime hang.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runtime_ended_during_a_request_leaves_nothing() {
    const RUNTIMES: usize = 100;
    let server = Server::start();
    let probe = server.probe();
    let pool = pool(&server).await;
    let asked = Arc::new(AtomicUsize::new(0));
    for number in 0..RUNTIMES {
        let (pool, asked) = (pool.clone(), Arc::clone(&asked));
        let ended = tokio::task::spawn_blocking(move || {
            let runtime = small();
            // The runtime of the first call reads the answers. All later calls are dropped with the
            // runtime, after it has yielded `number % 8` times.
            runtime.block_on(pair(&pool, "first"));
            for task in 0..16 {
                let (pool, asked) = (pool.clone(), Arc::clone(&asked));
                runtime.spawn(async move {
                    asked.fetch_add(1, Ordering::SeqCst);
                    let request = pool.lock(format!("{number}-{task}")).ttl(TTL);
                    let _guard = request.wait(LIMIT).acquire().await;
                    std::future::pending::<()>().await;
                });
            }
            runtime.block_on(async {
                for _ in 0..number % 8 {
                    tokio::task::yield_now().await;
                }
            });
        });
        ended.await.expect("no panic");
    }
    let asked = asked.load(Ordering::SeqCst);
    assert!(RUNTIMES < asked, "{asked} calls are too few");
    // The locks must be released long before the end of their ttl.
    wait::until_async("nothing is left", LIMIT, || {
        probe.keys("lock:*-*").is_empty()
    })
    .await;
}

/// Many short-lived runtimes use one pool, one after the other. Fails if their calls wait for a
/// runtime that was already dropped.
#[test]
fn short_runtimes_share_a_pool() {
    let server = Server::start();
    let pool = small().block_on(pool(&server));
    let mut slow = 0;
    for number in 0..800 {
        let (began, excuse) = (Instant::now(), Excuse::begin());
        small().block_on(async {
            for _ in 0..5 {
                pair(&pool, &format!("{}", number % 3)).await;
            }
        });
        // If nobody reads the answer to a call, the call waits until the keeper wakes and reads it.
        // The keeper sleeps for up to one second, so this bound is shorter.
        let most = Duration::from_millis(500) + excuse.so_far();
        slow += usize::from(most < began.elapsed());
    }
    assert!(slow < 8, "{slow} of 800");
}

/// Fails if calls on concurrent runtimes keep each other waiting forever, or hold a lock at the
/// same time.
#[test]
fn concurrent_runtimes_share_a_pool() {
    let server = Server::start();
    runtimes_at_once(&small().block_on(pool(&server)));
}

/// Fails if calls on concurrent runtimes keep each other waiting forever, or hold a lock at the
/// same time. Runs on any store.
pub(crate) fn runtimes_at_once(pool: &LockPool) {
    const RUNTIMES: usize = 4;
    const PAIRS: usize = 300;
    let inside = AtomicUsize::new(0);
    let sections = AtomicUsize::new(0);
    thread::scope(|scope| {
        for number in 0..RUNTIMES {
            let (inside, sections) = (&inside, &sections);
            scope.spawn(move || {
                small().block_on(async {
                    for _ in 0..PAIRS {
                        pair(pool, &format!("{number}")).await;
                        let guard = pool.lock("hot").ttl(TTL).wait(LIMIT).acquire().await;
                        let guard = guard.expect("its turn comes");
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        tokio::task::yield_now().await;
                        inside.fetch_sub(1, Ordering::SeqCst);
                        sections.fetch_add(1, Ordering::SeqCst);
                        guard.release().await.expect("held");
                    }
                });
            });
        }
    });
    assert_eq!(sections.load(Ordering::SeqCst), RUNTIMES * PAIRS);
}

/// Polls `future` on this thread, without a runtime.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return done;
        }
        thread::park();
    }
}

/// Fails if calls need a runtime to get their answers.
#[test]
fn threads_without_a_runtime_get_answers() {
    let server = Server::start();
    calls_without_a_runtime(&small().block_on(pool(&server)));
}

/// Fails if calls need a runtime to get their answers. Runs on any store.
pub(crate) fn calls_without_a_runtime(pool: &LockPool) {
    thread::scope(|scope| {
        for number in 0..4 {
            scope.spawn(move || {
                for _ in 0..200 {
                    let request = pool.lock(format!("{number}")).ttl(TTL).wait(LIMIT);
                    let guard = block_on(request.acquire()).expect("free");
                    block_on(guard.release()).expect("held");
                }
            });
        }
    });
}

/// Fails if calls need a runtime with an I/O driver.
#[test]
fn a_runtime_without_an_io_driver_is_enough() {
    let server = Server::start();
    calls_without_sockets(&small().block_on(pool(&server)));
}

/// Fails if calls need a runtime with an I/O driver. Runs on any store.
pub(crate) fn calls_without_sockets(pool: &LockPool) {
    let runtime = Builder::new_current_thread().enable_time().build();
    runtime.expect("a runtime").block_on(async {
        for _ in 0..100 {
            pair(pool, "key").await;
        }
    });
    // Later calls from another runtime must also get their answers.
    small().block_on(pair(pool, "key"));
}

/// Returns the number of connections that the server has accepted since it began.
fn connections(probe: &RedisProbe) -> u64 {
    let info: String = probe.run(cmd("INFO").arg("stats"));
    let mut lines = info.lines();
    let count = lines.find_map(|line| line.strip_prefix("total_connections_received:"));
    count
        .and_then(|count| count.parse().ok())
        .expect("a number")
}

/// The runtime that reads the answers is idle, so it does not read the answer to a `PING`. Fails if
/// the pool replaces its connection because the connection seems silent.
#[test]
fn an_idle_runtime_costs_no_connection() {
    /// Time for which the runtime is idle. An idle connection gets a `PING` after 15 s. It counts
    /// as silent after another `io_timeout` without an answer.
    const IDLE: Duration = Duration::from_secs(20);
    /// The `io_timeout`. Even on a busy machine, an answer takes less time.
    const SILENT: Duration = Duration::from_secs(3);
    let server = Server::start();
    let probe = server.probe();
    let runtime = small();
    let builder = LockPool::builder().url(server.url()).io_timeout(SILENT);
    let pool = runtime.block_on(builder.connect()).expect("it answers");
    // One replaced connection is allowed, because the machine may stall once.
    let replaced = (0..2).all(|_| {
        runtime.block_on(pair(&pool, "key"));
        let before = connections(&probe);
        thread::sleep(IDLE);
        connections(&probe) != before
    });
    assert!(!replaced, "each time");
}

/// An idle connection to a server without push messages (RESP2) ends. Fails if the pool does not
/// detect this and replace the connection at once.
#[test]
fn an_ended_connection_is_replaced_at_once() {
    let server = ServerOptions::new()
        .option("rename-command", &["HELLO", "OLDHELLO"])
        .start();
    let probe = server.probe();
    let runtime = small();
    let pool = runtime.block_on(pool(&server));
    runtime.block_on(pair(&pool, "key"));
    let before = connections(&probe);
    let mut kill = cmd("CLIENT");
    kill.arg("KILL").arg("TYPE").arg("NORMAL");
    let killed: u32 = probe.run(kill.arg("SKIPME").arg("YES"));
    assert_eq!(killed, 1, "the pool's");
    // This limit ends long before the next `PING`, whose missing answer would also reveal the end
    // of the connection.
    runtime.block_on(wait::until_async("it is replaced", LIMIT / 2, || {
        before < connections(&probe)
    }));
    runtime.block_on(pair(&pool, "key"));
}

/// Fails if a task that takes one lock after another keeps the timers of its runtime from firing.
#[test]
fn timers_fire_beside_a_busy_loop() {
    async fn ticks(hot: impl Future<Output = ()>) -> usize {
        let mut hot = pin!(hot);
        let mut count = 0;
        loop {
            tokio::select! {
                biased;
                () = &mut hot => return count,
                () = tokio::time::sleep(Duration::from_millis(1)) => count += 1,
            }
        }
    }
    small().block_on(async {
        let pool = LockPool::connect("memory://hot-loop")
            .await
            .expect("a pool");
        let mutex = tokio::sync::Mutex::new(());
        let long = Duration::from_millis(300);
        let mut least = (0, usize::MAX);
        // Each attempt measures twice: beside locks of the pool, and beside a tokio mutex. The test
        // makes several attempts, because other tests may use the processors meanwhile.
        for _ in 0..5 {
            let locks = async {
                let began = Instant::now();
                while began.elapsed() < long {
                    let guard = pool.lock("key").ttl(TTL).acquire().await.expect("free");
                    guard.release().await.expect("held");
                }
            };
            let ours = ticks(locks).await;
            let theirs = ticks(async {
                let began = Instant::now();
                while began.elapsed() < long {
                    drop(mutex.lock().await);
                }
            })
            .await;
            if theirs / 4 <= ours {
                return;
            }
            least = (ours, theirs);
        }
        panic!("{} times, beside a tokio mutex {}", least.0, least.1);
    });
}
