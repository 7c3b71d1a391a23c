//! Blocking calls inside the bodies of other calls.

use std::thread;

use leasehold::{Fence, LockError, LockPool, distributed_lock, is_held};
use leasehold_tests::on_every_store;
use leasehold_tests::rerun::fails_with;
use leasehold_tests::stores::Store;
use tokio::runtime::Builder;
use tokio::sync::oneshot;

use super::{LONG, Result, TTL, on_a_thread};

on_every_store!(
    a_nested_call_enters_or_is_refused,
    an_async_body_has_blocking_calls,
    a_branch_that_has_the_permit_is_not_waited_for,
    another_task_on_the_thread_is_outside,
);

#[distributed_lock(key = "k", ttl = "20s", wait = "50s", reentrant, guard = lock, pool = pool)]
fn nest(pool: &LockPool, depth: u32) -> Result<Vec<Option<Fence>>> {
    assert!(is_held("k") && pool.is_held("k"));
    let mut fences = vec![lock.fence()];
    if depth > 0 {
        fences.extend(nest(pool, depth - 1)?);
    }
    lock.check()?;
    Ok(fences)
}

#[distributed_lock(key = "k", ttl = "20s", wait = "50s", pool = pool)]
fn alone(pool: &LockPool) -> Result<bool> {
    // A thread that the body has started is not inside the body's lock.
    let other = pool.clone();
    let outside = thread::spawn(move || other.is_held("k"));
    Ok(pool.is_held("k") && !outside.join().expect("no panic"))
}

/// Fails if a nested blocking call waits for a lock that an outer call holds, or takes this lock
/// again. With `reentrant` the nested call must enter the lock, otherwise it must be refused.
async fn a_nested_call_enters_or_is_refused(store: &Store) {
    let pool = store.pool().await;
    on_a_thread(move || {
        let fences = nest(&pool, 3).expect("free");
        assert_eq!(fences.len(), 4);
        assert!(fences.iter().all(|fence| *fence == fences[0]));
        assert_eq!(alone(&pool), Ok(true));
        let request = || pool.lock("k").ttl(TTL).wait(LONG);
        let nested = request().run_blocking(|| alone(&pool)).expect("free");
        assert!(
            matches!(nested, Err(LockError::WouldDeadlock { .. })),
            "{nested:?}"
        );
        let nested = request().run_blocking(|| nest(&pool, 0)).expect("free");
        assert_eq!(nested.map(|fences| fences.len()), Ok(1));
        assert!(!pool.is_held("k"));
    })
    .await;
}

/// An async body makes blocking calls for the lock that it holds. Fails if these calls do not
/// detect that they are nested.
async fn an_async_body_has_blocking_calls(store: &Store) {
    let pool = store.pool().await;
    let inner = pool.clone();
    let body = async move {
        tokio::task::yield_now().await;
        (alone(&inner), nest(&inner, 1))
    };
    let run = pool.lock("k").ttl(TTL).wait(LONG).run(body);
    let (refused, entered) = tokio::spawn(run).await.expect("no panic").expect("free");
    assert!(
        matches!(refused, Err(LockError::WouldDeadlock { .. })),
        "{refused:?}"
    );
    assert_eq!(entered.expect("it enters").len(), 2);
}

/// Two branches of one body make nested calls for the body's lock. The first branch is inside and
/// waits for the second. Fails if the blocking call of the second branch waits for the first, which
/// could then never leave.
async fn a_branch_that_has_the_permit_is_not_waited_for(store: &Store) {
    let pool = store.pool().await;
    let inner = pool.clone();
    let body = async move {
        let (leave, left) = oneshot::channel::<()>();
        let request = || inner.lock("k").ttl(TTL).reentrant();
        let first = request().run(async { left.await.is_ok() });
        let second = async {
            let refused = nest(&inner, 0);
            leave.send(()).expect("the first branch waits");
            refused
        };
        tokio::join!(first, second)
    };
    let run = pool.lock("k").ttl(TTL).watchdog().wait(LONG).run(body);
    let (first, second) = tokio::spawn(run).await.expect("no panic").expect("free");
    assert_eq!(first, Ok(true));
    assert!(
        matches!(second, Err(LockError::WouldDeadlock { .. })),
        "{second:?}"
    );
}

/// A blocking body waits in `block_on` for another task, which runs on the same thread. Fails if
/// this task enters the lock of the body.
async fn another_task_on_the_thread_is_outside(store: &Store) {
    let pool = store.pool().await;
    on_a_thread(move || {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime starts");
        let (start, started) = oneshot::channel::<()>();
        let same = pool.clone();
        let task = runtime.spawn(async move {
            started.await.expect("the body begins");
            let request = same.lock("k").ttl(TTL).reentrant();
            (is_held("k"), request.run(async {}).await)
        });
        let request = pool.lock("k").ttl(TTL).wait(LONG);
        let ended = request.run_blocking(|| {
            start.send(()).expect("the task waits");
            let ended = runtime.block_on(task).expect("no panic");
            // A future that the body itself passes to `block_on` is inside the body's lock.
            assert!(runtime.block_on(async { is_held("k") }));
            ended
        });
        let (inside, entered) = ended.expect("free");
        assert!(!inside);
        let refused = entered.expect_err("held by the body");
        assert!(refused.is_contention(), "{refused}");
    })
    .await;
}

/// Fails if the named test does not detect a seeded bug: each task on a body's thread counts as
/// inside the lock of this body.
#[test]
#[ignore = "needs a seeded bug: `scripts/check` runs it"]
fn foreign_tasks_inside_are_found() {
    for test in [
        "bodies::blocking::nested::memory::another_task_on_the_thread_is_outside",
        "bodies::blocking::nested::redis::another_task_on_the_thread_is_outside",
    ] {
        fails_with("PathOfThread", test);
    }
}
