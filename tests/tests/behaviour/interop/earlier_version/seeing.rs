//! Tests that locks of the earlier version can be inspected and taken away.

use std::time::Duration;

use leasehold::LockState;
use leasehold_tests::wait;

use super::sides::{As, LONG, Stage, TTL, want};

/// Longest time for which a revoked lock stays taken.
const GRACE: Duration = Duration::from_secs(3);

/// Fails if a holder, a shared holder or a waiting process of the earlier version is not shown, or
/// is shown as `foreign`.
#[test]
fn holders_of_the_earlier_version_are_shown() {
    let stage = Stage::new();
    let (pool, mut earlier, mut second) = (stage.present(), stage.earlier(), stage.earlier());
    let inspected = |key: &str| {
        let lock = stage.runtime.block_on(pool.inspect(key));
        lock.expect("it answers")
    };
    let lease = earlier.try_take(&want("k", As::Alone)).expect("it is free");
    let lock = inspected("k");
    let holder = &lock.holders[0];
    assert_eq!((lock.state, holder.foreign), (LockState::Exclusive, false));
    let owner = holder.owner.as_ref().expect("it writes its owner");
    assert_eq!((&*owner.host, owner.pid), ("earlier", std::process::id()));
    assert_eq!(lock.fence.map(u64::from), Some(lease.fence));
    let error = stage.runtime.block_on(pool.lock("k").ttl(TTL).acquire());
    let error = error.expect_err("it is held");
    assert_eq!(error.holder(), Some(owner));
    let token = "0123456789abcdef0123456789abcdef";
    let mut lock = inspected("k");
    // The request is repeated, because a process leaves the queue if it does not repeat its request
    // within three seconds.
    wait::until("it is seen to wait", LONG, || {
        let queued = second.ask(&want("k", As::Alone), token, true);
        assert!(format!("{queued:?}").contains("queued: true"), "{queued:?}");
        lock = inspected("k");
        lock.waiting.len() == 1
    });
    assert_eq!(lock.waiting[0].owner, None, "it notes no owner");
    second.leave("lock:k");
    assert!(earlier.release(&want("k", As::Alone), &lease.token, None));

    let lease = earlier
        .try_take(&want("s", As::Reader))
        .expect("it is free");
    let ours = stage
        .runtime
        .block_on(pool.lock("s").ttl(TTL).shared().acquire());
    let ours = ours.expect("beside a reader");
    let lock = inspected("s");
    assert_eq!((lock.state, lock.holders.len()), (LockState::Shared, 2));
    let known = lock.holders.iter().filter(|holder| holder.owner.is_some());
    assert_eq!(known.count(), 1, "it notes no owner of a share");
    assert!(lock.holders.iter().all(|holder| !holder.foreign));
    assert!(earlier.release(&want("s", As::Reader), &lease.token, None));
    stage.runtime.block_on(ours.release()).expect("still held");
}

/// Fails if a holder of the earlier version keeps a lock taken away from it, or if a waiting
/// process does not get that lock.
#[test]
fn the_earlier_version_loses_a_revoked_lock() {
    let stage = Stage::new();
    let (pool, mut earlier) = (stage.present(), stage.earlier());
    let take_away = |key: &str| {
        let was = stage.runtime.block_on(pool.force_release(key));
        was.expect("it answers").expect("it was held")
    };
    for how in [As::Alone, As::Reader, As::OneOf(2)] {
        let want = want("k", how);
        let lease = earlier.try_take(&want).expect("it is free");
        take_away("k");
        assert!(!earlier.renew(&want, &lease.token), "{how:?} is renewed");
        assert!(!earlier.release(&want, &lease.token, None));
        let next = pool.lock("k").ttl(TTL).wait(LONG).acquire();
        let next = stage.runtime.block_on(next).expect("it comes free");
        assert!(next.fence().map(u64::from) > Some(lease.fence));
        stage.runtime.block_on(next.release()).expect("still held");
    }

    let ours = stage.runtime.block_on(pool.lock("k").ttl(TTL).acquire());
    let ours = ours.expect("it is free");
    let alone = want("k", As::Alone);
    assert!(earlier.try_take(&alone).is_none());
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| earlier.take(&alone, LONG));
        stage.await_queued("k", 1);
        take_away("k");
        stage.runtime.block_on(async {
            wait::within("ours is notified", LONG, Box::pin(ours.lost())).await;
            let error = ours.release().await.expect_err("it was lost");
            assert!(error.is_lost(), "{error}");
        });
        let lease = waits.join().expect("no panic").expect("its turn comes");
        let left = stage.probe.ttl("lock:k").expect("it expires");
        assert!(GRACE < left, "it has its whole ttl: {left:?}");
        drop(lease);
    });
}
