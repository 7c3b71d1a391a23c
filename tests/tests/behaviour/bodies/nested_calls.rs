//! Tests of nested calls. A nested call with `reentrant` *enters* the lock of the call around it:
//! its body runs inside the same lease. Without `reentrant`, a nested call for the same key is
//! refused at once. Of the nested calls in one body, only one is inside at a time, and the others
//! wait. The *call path* of a call is the list of the locks around it.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use leasehold::{Fence, LockError, LockGuard, LockPool, distributed_lock};
use leasehold_tests::lateness::Excuse;
use leasehold_tests::stores::Store;
use leasehold_tests::wait;
use leasehold_tests::{on_every_store, on_stores};
use tokio::sync::{Barrier, oneshot};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::is_released;

const TTL: Duration = Duration::from_secs(20);
/// Time limit for one call. A call takes longer only if it hangs.
const HANG: Duration = Duration::from_secs(10);
/// Time in which an unwanted event would happen.
const PAUSE: Duration = Duration::from_millis(20);

type Result<T = ()> = std::result::Result<T, LockError>;

/// Returns the fences of all nested calls, from the outermost call to the innermost.
#[distributed_lock(key = "k", ttl = "20s", reentrant, guard = lock, pool = pool)]
pub(super) async fn nest(pool: &LockPool, depth: u32) -> Result<Vec<Option<Fence>>> {
    lock.check()?;
    tokio::task::yield_now().await;
    let mut fences = vec![lock.fence()];
    if depth > 0 {
        fences.extend(Box::pin(nest(pool, depth - 1)).await?);
    }
    assert!(lock.remaining() <= TTL);
    lock.check()?;
    Ok(fences)
}

/// Fails if a nested call takes the lock again, or if the end of an inner call releases the lock.
async fn a_recursive_call_enters(store: &Store) {
    let (pool, asked) = (store.pool().await, Instant::now());
    let fences = wait::within("a recursion", HANG, nest(&pool, 5)).await;
    let fences = fences.expect("no other call holds it");
    assert_eq!(fences.len(), 6);
    assert!(fences[0].is_some());
    assert!(fences.iter().all(|fence| *fence == fences[0]));
    is_released(&*store.probe, "k", asked).await;
}

/// Fails if the end of the inner call releases the lock that the outer call still needs.
async fn only_the_outermost_call_releases(store: &Store) {
    let (pool, asked) = (store.pool().await, Instant::now());
    let request = || pool.lock("k").ttl(TTL).reentrant();
    let outer = request().run(async {
        request().run(async {}).await?;
        assert!(store.probe.exists("k"), "released by the inner call");
        let guard = request().acquire().await?;
        guard.check()?;
        guard.release().await?;
        assert!(store.probe.exists("k"), "released by the inner guard");
        drop(request().acquire().await?);
        assert!(store.probe.exists("k"), "released by the dropped guard");
        // This inner call is dropped before its end.
        let inner = request().run(std::future::pending::<()>());
        assert!(tokio::time::timeout(PAUSE, inner).await.is_err());
        assert!(store.probe.exists("k"), "released by the dropped call");
        request().run(async {}).await
    });
    let outer = wait::within("calls in a call", HANG, outer).await;
    outer.expect("free").expect("all enter");
    is_released(&*store.probe, "k", asked).await;
}

trait Ledger {
    fn book<'a>(&'a self, pool: &'a LockPool) -> Pin<Box<dyn Future<Output = Result> + Send + 'a>>;
}

struct Inner;
struct Outer(Box<dyn Ledger + Send + Sync>);

impl Ledger for Inner {
    fn book<'a>(&'a self, pool: &'a LockPool) -> Pin<Box<dyn Future<Output = Result> + Send + 'a>> {
        Box::pin(async move { nest(pool, 0).await.map(drop) })
    }
}

impl Outer {
    #[distributed_lock(key = "k", ttl = "20s", wait = "10s", pool = pool)]
    async fn locked(&self, pool: &LockPool) -> Result {
        sleep(Duration::from_millis(1)).await;
        self.0.book(pool).await
    }
}

impl Ledger for Outer {
    fn book<'a>(&'a self, pool: &'a LockPool) -> Pin<Box<dyn Future<Output = Result> + Send + 'a>> {
        Box::pin(self.locked(pool))
    }
}

/// Fails if the call path is lost in a trait object, or across an await that moves the task to
/// another thread.
async fn the_call_path_survives_trait_objects_and_awaits(store: &Store) {
    let pool = store.pool().await;
    let ledger: Box<dyn Ledger + Send + Sync> = Box::new(Outer(Box::new(Inner)));
    for _ in 0..50 {
        let booked = wait::within("a booking", HANG, ledger.book(&pool)).await;
        booked.expect("the inner call enters");
    }
}

/// Number of calls that are inside the lock. `stay` asserts that there is at most one.
#[derive(Default)]
struct Inside(AtomicU32);

impl Inside {
    async fn stay(&self) {
        assert_eq!(self.0.fetch_add(1, Ordering::SeqCst), 0, "two at once");
        sleep(Duration::from_millis(2)).await;
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Fails if two branches of a `join!` are inside the lock at the same time. Also fails if a nested
/// call waits for the calls that enclose it.
async fn concurrent_branches_take_turns(store: &Store) {
    let (pool, asked) = (store.pool().await, Instant::now());
    let (all, within_two) = (Inside::default(), Inside::default());
    let request = || pool.lock("k").ttl(TTL).reentrant();
    let branch = async |times: u32| {
        for _ in 0..times {
            request().run(all.stay()).await?;
        }
        Ok::<_, LockError>(())
    };
    let forked = async {
        let fork = async {
            tokio::try_join!(
                request().run(within_two.stay()),
                request().run(within_two.stay())
            )
        };
        request().run(fork).await??;
        Ok::<_, LockError>(())
    };
    let guards = async {
        for _ in 0..5 {
            let guard = request().acquire().await?;
            all.stay().await;
            guard.release().await?;
        }
        Ok(())
    };
    let outer = request().run(async { tokio::try_join!(branch(5), branch(5), forked, guards) });
    let outer = wait::within("the branches", HANG, Box::pin(outer)).await;
    outer.expect("free").expect("each has its turns");
    is_released(&*store.probe, "k", asked).await;
}

/// One branch is inside, and the others wait for it. Fails if a branch waits longer than its own
/// `wait`, or still enters after this time. Also fails if a branch with a `wait` of zero waits.
async fn waiting_for_a_turn_has_a_budget(store: &Store) {
    let (pool, asked) = (store.pool().await, Instant::now());
    let request = || pool.lock("k").ttl(TTL).reentrant();
    let (budget, excuse) = (Duration::from_millis(200), Excuse::begin());
    let outer = request().run(async {
        let (gave_up, given_up) = oneshot::channel();
        let long = request().run(given_up);
        let once = async {
            sleep(PAUSE).await;
            request().wait(Duration::ZERO).acquire().await
        };
        let short = async {
            sleep(PAUSE).await;
            let started = Instant::now();
            let ended = request().wait(budget).acquire().await;
            let took = started.elapsed();
            gave_up.send(()).expect("the first branch waits for it");
            (ended, took)
        };
        let patient = async {
            sleep(PAUSE).await;
            let ended = request().wait(HANG).run(async {}).await;
            // If no branch is inside, a call enters even with a `wait` of zero.
            request().wait(Duration::ZERO).run(async {}).await?;
            ended
        };
        let (long, once, (short, took), patient) = tokio::join!(long, once, short, patient);
        let given_up = long.expect("it has the first turn");
        given_up.expect("the short branch has ended");
        match once.expect_err("it is another's turn") {
            LockError::Contended {
                key, retry_after, ..
            } => {
                assert_eq!(key, "k");
                assert!(retry_after.is_some_and(|left| left <= TTL));
            }
            other => panic!("{other:?}"),
        }
        match short.expect_err("it is another's turn") {
            LockError::TimedOut { key, waited, .. } => {
                assert_eq!(key, "k");
                assert!(budget <= waited && waited <= took, "{waited:?} of {took:?}");
            }
            other => panic!("{other:?}"),
        }
        // The branch `long` leaves only after `short` has given up, so `short` must give up itself.
        assert!(took < 5 * budget + excuse.so_far(), "{took:?}");
        patient.expect("its turn comes");
        assert!(store.probe.exists("k"), "released by a branch");
    });
    wait::within("the branches", HANG, Box::pin(outer))
        .await
        .expect("free");
    is_released(&*store.probe, "k", asked).await;
}

/// Fails if a dropped branch still keeps other branches out, or keeps its place in the order of
/// waiting branches.
async fn a_dropped_branch_returns_its_turn(store: &Store) {
    let pool = store.pool().await;
    let request = || pool.lock("k").ttl(TTL).reentrant();
    let outer = request().run(async {
        let mut first = Box::pin(request().run(std::future::pending::<()>()));
        let mut second = Box::pin(request().run(async {}));
        tokio::select! {
            biased;
            ended = &mut first => panic!("{ended:?}"),
            ended = &mut second => panic!("it is not its turn: {ended:?}"),
            () = sleep(PAUSE) => {}
        }
        drop(first);
        second.await?;
        let mut third = Box::pin(request().run(std::future::pending::<()>()));
        let mut waiting = Box::pin(request().run(async {}));
        tokio::select! {
            biased;
            ended = &mut third => panic!("{ended:?}"),
            ended = &mut waiting => panic!("it is not its turn: {ended:?}"),
            () = sleep(PAUSE) => {}
        }
        drop(waiting);
        drop(third);
        request().run(async {}).await
    });
    let outer = wait::within("the branches", HANG, outer).await;
    outer.expect("free").expect("all turns came back");
}

/// Fails if a spawned task can enter the lock of the body that has spawned it. The task would then
/// run inside the lock concurrently with this body.
async fn a_spawned_task_is_outside_of_the_lock(store: &Store) {
    let pool = store.pool().await;
    let mut spawned = None;
    let outer = pool.lock("k").ttl(TTL).run(async {
        let inside = pool.clone();
        let nested = async move { nest(&inside, 0).await };
        let refused = tokio::spawn(nested).await.expect("no panic");
        assert!(
            matches!(refused, Err(LockError::Contended { .. })),
            "{refused:?}"
        );
        let waiting = pool.lock("k").ttl(TTL).wait(HANG).reentrant();
        spawned = Some(tokio::spawn(waiting.run(async { 1 })));
    });
    outer.await.expect("free");
    let spawned = spawned.expect("it was spawned");
    let waited = wait::within("the spawned task", HANG, spawned).await;
    assert_eq!(waited.expect("no panic"), Ok(1));
}

/// Locks the same key as `nest`, but without `reentrant`.
#[distributed_lock(key = "k", ttl = "20s", wait = "10s", pool = pool)]
pub(super) async fn plain(pool: &LockPool) -> Result {
    Ok(())
}
const PLAIN_LINE: u32 = line!() - 4;

#[distributed_lock(key = "k", ttl = "20s", pool = pool)]
async fn plain_outside(pool: &LockPool) -> Result<LockError> {
    Ok(plain(pool).await.expect_err("it would wait for itself"))
}

#[track_caller]
fn expect_deadlock(error: &LockError, line: u32) {
    let expected = LockError::WouldDeadlock {
        key: "k".to_owned(),
        held_at: format!("{}:{line}", file!()),
    };
    assert_eq!(*error, expected);
}

/// Fails if a nested call without `reentrant` waits for the lock of the call around it. Also fails
/// if its error reports contention instead of a deadlock.
async fn a_nested_call_without_the_flag_deadlocks(store: &Store) {
    let pool = store.pool().await;
    let error = plain_outside(&pool).await.expect("free");
    expect_deadlock(&error, PLAIN_LINE + 6);

    let (asked, held_at) = (Instant::now(), line!() + 1);
    let outer = pool.lock("k").ttl(TTL).wait(HANG).run(async {
        let again = || pool.lock("k").ttl(TTL).wait(HANG);
        expect_deadlock(&again().acquire().await.expect_err("nested"), held_at);
        expect_deadlock(&again().run(async {}).await.expect_err("nested"), held_at);
        expect_deadlock(&plain(&pool).await.expect_err("nested"), held_at);
        // This reentrant call runs inside the lock of the outer call, and `plain` is nested in it.
        // The error of `plain` must still report the line of the outer call, which took the lock.
        let deeper = again()
            .reentrant()
            .run(plain(&pool))
            .await
            .expect("it enters");
        expect_deadlock(&deeper.expect_err("nested"), held_at);
        // The refusal must take less time than any round trip to the store. Only the shortest of
        // many times counts, so that delays of a busy machine do not matter.
        let mut shortest = HANG;
        for _ in 0..100 {
            let started = Instant::now();
            expect_deadlock(&again().acquire().await.expect_err("nested"), held_at);
            shortest = shortest.min(started.elapsed());
        }
        assert!(shortest < Duration::from_millis(1), "{shortest:?}");
    });
    outer.await.expect("free");
    is_released(&*store.probe, "k", asked).await;
}

/// Fails if a lock on another key, or on the same key in another pool, is confused with the held
/// lock.
async fn nested_calls_lock_other_keys_and_pools(store: &Store) {
    let pool = store.pool().await;
    let other = LockPool::connect("memory://reentrant-other")
        .await
        .expect("it connects");
    let outer = pool.lock("k").ttl(TTL).run(async {
        let asked = Instant::now();
        let inner = pool.lock("j").ttl(TTL).reentrant().run(async {
            assert!(store.probe.exists("j"), "locked on its own");
            // Inside the lock on the other key, a call enters the lock on the first key.
            nest(&pool, 1).await?;
            nest(&other, 0).await
        });
        let inner = inner.await.expect("free").expect("all enter");
        is_released(&*store.probe, "j", asked).await;
        assert!(store.probe.exists("k"));
        inner
    });
    let fences = outer.await.expect("free");
    assert_eq!(fences.len(), 1);
    // Another pool on the same store counts as another process: its call is refused.
    let twin = store.pool().await;
    let refused = pool
        .lock("k")
        .ttl(TTL)
        .run(nest(&twin, 0))
        .await
        .expect("free");
    assert!(
        matches!(refused, Err(LockError::Contended { .. })),
        "{refused:?}"
    );
}

/// Fails if a call enters a lock because its task has a guard of this lock. A guard can be sent to
/// another task, so code that runs while the guard exists is not inside its lock.
async fn a_guard_is_not_a_body(store: &Store) {
    let pool = store.pool().await;
    let guard: LockGuard = pool.lock("k").ttl(TTL).acquire().await.expect("free");
    let refused = nest(&pool, 0).await;
    assert!(
        matches!(refused, Err(LockError::Contended { .. })),
        "{refused:?}"
    );
    guard.release().await.expect("held until now");
}

/// Holds a lock with the shortest possible ttl, so that its lease soon ends.
#[distributed_lock(key = "k", ttl = "100ms", on_lost = "continue", pool = pool)]
async fn outlive(pool: &LockPool) -> Result<[Result; 3]> {
    // The first nested call enters and never ends. The second nested call waits for the first. Both
    // end when they are notified of the loss.
    let endless = pool
        .lock("k")
        .ttl(TTL)
        .reentrant()
        .run(std::future::pending());
    let waiting = pool.lock("k").ttl(TTL).reentrant().run(async {});
    // `woken` polls a branch only when this branch is woken, so the loss must wake each of the two
    // branches.
    let (first, second) = tokio::join!(woken(endless), woken(waiting));
    let late = pool.lock("k").ttl(TTL).reentrant().run(async {}).await;
    // The lost lock is no longer on the call path, so this call takes the lock like any other call.
    plain(pool).await?;
    Ok([first, second, late])
}

/// Polls the future once, and again only after its own waker was called.
async fn woken<T>(future: impl Future<Output = T>) -> T {
    let mut only: FuturesUnordered<_> = std::iter::once(future).collect();
    only.next().await.expect("there is one")
}

/// Fails if nested calls continue after their shared lease is lost.
async fn nested_calls_stop_after_a_lost_lease(store: &Store) {
    let pool = store.pool().await;
    let results = wait::within("the lost lease", HANG, wait::begun(|| outlive(&pool))).await;
    for result in results.expect("it goes on") {
        assert!(matches!(result, Err(LockError::Lost { .. })), "{result:?}");
    }
}

/// A nested call waits to enter, because the guard of another nested call stays inside the lock.
/// Fails if the call keeps waiting after the lease is lost.
async fn a_lost_lease_ends_the_wait_for_a_turn(store: &Store) {
    let pool = store.pool().await;
    let body = async || {
        let request = || pool.lock("k").ttl(TTL).reentrant();
        let _guard = request().acquire().await.expect("it enters");
        request().run(async {}).await
    };
    let call = wait::begun(|| outlived(&pool, body()));
    let result = wait::within("the lost lease", HANG, call).await;
    assert!(
        matches!(result, Ok(Err(LockError::Lost { .. }))),
        "{result:?}"
    );
}

#[distributed_lock(key = "k", ttl = "1s", on_lost = "continue", pool = pool)]
async fn outlived<T>(pool: &LockPool, body: impl Future<Output = T>) -> Result<T> {
    Ok(body.await)
}

/// Fails if a call continues after its lease is lost, or does not drop the body of its endless
/// inner call.
async fn a_lost_lease_drops_the_inner_body(store: &Store) {
    let pool = store.pool().await;
    let request = |ttl| pool.lock("k").ttl(ttl).reentrant();
    let body = Arc::new(());
    let kept = Arc::clone(&body);
    let inner = request(TTL).run(async move {
        std::future::pending::<()>().await;
        drop(kept);
    });
    let mut outer = pin!(request(Duration::from_millis(100)).run(inner));
    let lost = wait::within("the lost lease", HANG, outer.as_mut()).await;
    assert!(matches!(lost, Err(LockError::Lost { .. })), "{lost:?}");
    assert_eq!(Arc::strong_count(&body), 1, "the inner body is dropped");
}

on_every_store! {
    a_recursive_call_enters,
    only_the_outermost_call_releases,
    the_call_path_survives_trait_objects_and_awaits,
    concurrent_branches_take_turns,
    waiting_for_a_turn_has_a_budget,
    a_dropped_branch_returns_its_turn,
    a_spawned_task_is_outside_of_the_lock,
    a_nested_call_without_the_flag_deadlocks,
    nested_calls_lock_other_keys_and_pools,
    a_guard_is_not_a_body,
    nested_calls_stop_after_a_lost_lease,
    a_lost_lease_ends_the_wait_for_a_turn,
    a_lost_lease_drops_the_inner_body,
}

on_stores!(sentinel cluster: (
    a_recursive_call_enters,
    only_the_outermost_call_releases,
    nested_calls_stop_after_a_lost_lease,
));

// Redlock's locks have no fences, so the tests of fences are missing here.
on_stores!(redlock: (
    only_the_outermost_call_releases,
    nested_calls_stop_after_a_lost_lease,
));

/// Fails if a body can enter the lock of another body that runs concurrently on the same thread,
/// in the same task or in another one. Each of the two bodies requests the key of the other one.
#[tokio::test]
async fn bodies_on_one_thread_have_their_own_paths() {
    let pool = LockPool::connect("memory://reentrant-threads")
        .await
        .expect("it connects");
    let barrier = Arc::new(Barrier::new(2));
    let hold = |mine: &'static str, other: &'static str| {
        let (pool, barrier) = (pool.clone(), Arc::clone(&barrier));
        async move {
            let body = async {
                barrier.wait().await;
                let taken = pool.lock(other).ttl(TTL).reentrant().acquire().await;
                barrier.wait().await;
                matches!(taken, Err(LockError::Contended { .. }))
            };
            pool.lock(mine).ttl(TTL).run(body).await
        }
    };
    let refused = tokio::join!(hold("a", "b"), hold("b", "a"));
    assert_eq!(refused, (Ok(true), Ok(true)));
    let mut tasks = JoinSet::new();
    tasks.spawn(hold("a", "b"));
    tasks.spawn(hold("b", "a"));
    assert_eq!(tasks.join_all().await, [Ok(true), Ok(true)]);
}
