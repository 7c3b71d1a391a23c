//! Tests of callers on unusual threads and executors. The engine does a part of its work on
//! callers' threads, but an unusual caller must not harm other callers.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use leasehold::{LockError, LockGuard, LockPool};
use leasehold_tests::on_every_store;
use leasehold_tests::server::Server;
use leasehold_tests::stores::Store;
use leasehold_tests::wait;

const TTL: Duration = Duration::from_secs(60);
/// Time limit for one call. A call takes longer only if it hangs.
const LIMIT: Duration = Duration::from_secs(20);

type Acquire = Pin<Box<dyn Future<Output = Result<LockGuard, LockError>> + Send>>;

on_every_store!(
    a_guard_dropped_at_the_end_of_its_thread_is_released,
    a_panicking_waker_affects_no_other_caller,
    a_panicking_waker_of_a_handle_affects_no_release,
);

fn acquire(pool: &LockPool, key: &str) -> Acquire {
    Box::pin(pool.lock(key).ttl(TTL).wait(LIMIT).acquire())
}

async fn is_free(pool: &LockPool, key: &str) {
    let guard = wait::within("the lock is had", LIMIT, acquire(pool, key)).await;
    guard.expect("free").release().await.expect("held");
}

/// A guard is dropped with a thread-local variable, at the very end of its thread. The thread can
/// then no longer enter a runtime. Fails if the lock stays held, or if the engine is unusable
/// afterwards.
async fn a_guard_dropped_at_the_end_of_its_thread_is_released(store: &Store) {
    thread_local! {
        static KEPT: RefCell<Option<LockGuard>> = const { RefCell::new(None) };
    }
    let pool = store.pool().await;
    let other = acquire(&pool, "other").await.expect("free");
    let guarded = pool.clone();
    let ended = tokio::task::spawn_blocking(move || {
        // A thread outside of any runtime.
        let thread = thread::spawn(move || {
            KEPT.with(|kept| {
                // This variable is initialized before the thread-local variables of the runtime. So
                // it is destroyed after them, together with its guard.
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

/// A waker that panics, like the waker of an ended executor.
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

/// Fails if a panicking waker ends the call of another caller, makes the engine unusable, or
/// prevents the waking of later callers.
async fn a_panicking_waker_affects_no_other_caller(store: &Store) {
    let pool = store.pool().await;
    let first = acquire(&pool, "key").await.expect("free");
    let mut second = acquire(&pool, "key");
    let panics = Arc::new(Panics::default());
    let waker = Waker::from(Arc::clone(&panics));
    let polled = second.as_mut().poll(&mut Context::from_waker(&waker));
    assert!(polled.is_pending());
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

/// Fails if a lock stays held because the waker of a task panics that waits for the lock's end.
async fn a_panicking_waker_of_a_handle_affects_no_release(store: &Store) {
    let pool = store.pool().await;
    for drops in [true, false] {
        let guard = acquire(&pool, "key").await.expect("free");
        let handle = guard.handle();
        let panics = Arc::new(Panics::default());
        let waker = Waker::from(Arc::clone(&panics));
        let mut lost = pin!(handle.lost());
        let polled = lost.as_mut().poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
        if drops {
            drop(guard);
        } else {
            guard.release().await.expect("held");
        }
        assert!(
            panics.woken.load(Ordering::SeqCst),
            "at the end of the lock"
        );
        is_free(&pool, "key").await;
    }
}

/// The test polls each call once, and again only when all locks are on the server. Fails if a
/// request is sent only at a further poll of a call, or if a call gets no answer.
#[tokio::test(flavor = "multi_thread")]
async fn no_call_waits_for_an_unpolled_caller() {
    const CALLS: usize = 8;
    let server = Server::start();
    let probe = server.probe();
    // With this long timeout, a delayed request is not sent again during the test.
    let builder = LockPool::builder().url(server.url()).io_timeout(2 * LIMIT);
    let pool = builder.connect().await.expect("it answers");
    for _ in 0..50 {
        let mut calls: Vec<Acquire> = Vec::new();
        for number in 0..CALLS {
            let mut call = acquire(&pool, &format!("{number}"));
            match call.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(guard) => calls.push(Box::pin(std::future::ready(guard))),
                Poll::Pending => calls.push(call),
            }
        }
        wait::until_async("all have their locks on the server", LIMIT, || {
            probe.keys("lock:?").len() == CALLS
        })
        .await;
        for call in calls {
            let guard = wait::within("it is notified", LIMIT, call).await;
            guard.expect("free").release().await.expect("held");
        }
    }
}

/// Fails if calls with immediate answers do not yield their thread to other tasks.
#[tokio::test]
async fn immediately_answered_calls_yield_to_other_tasks() {
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
    // The runtime has only one thread. The calls below must yield it to this task.
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
