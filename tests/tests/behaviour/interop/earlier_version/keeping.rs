//! Tests of locks that stay held for a while after their release.

use std::thread;
use std::time::{Duration, Instant};

use super::sides::{As, LONG, in_four_directions};

const KEEP: Duration = Duration::from_millis(800);
/// Tolerance for rounding. The server counts whole milliseconds, and reads its clock before it
/// executes the command.
const ROUNDED: Duration = Duration::from_millis(3);

/// A holder releases its lock, but keeps it locked for `KEEP`. Fails if a waiting process of either
/// version gets the lock before this time, or does not get it afterwards.
#[test]
fn a_kept_lock_is_granted_after_its_time() {
    in_four_directions(|stage, holder, waiter| {
        let held = holder.take("k", As::Alone, LONG).expect("it is free");
        let before = held.fence();
        thread::scope(|scope| {
            let next = scope.spawn(|| {
                let next = waiter.take("k", As::Alone, LONG).expect("its time comes");
                (next, Instant::now())
            });
            stage.await_queued("k", 1);
            let released = Instant::now();
            holder.release(held, Some(KEEP));
            assert!(holder.take("k", As::Alone, Duration::ZERO).is_none());
            let (next, at) = next.join().expect("no panic");
            let kept = at - released;
            assert!(kept + ROUNDED >= KEEP, "{kept:?}");
            assert!(next.fence() > before, "{} after {before}", next.fence());
        });
    });
}

/// A holder releases its lock, but keeps it locked for `LONG`. Fails if a single attempt by a
/// process of either version succeeds in this time.
#[test]
fn a_kept_lock_refuses_single_tries() {
    in_four_directions(|stage, holder, other| {
        let held = holder.take("k", As::Alone, LONG).expect("it is free");
        holder.release(held, Some(LONG));
        for side in [other, holder] {
            assert!(side.take("k", As::Alone, Duration::ZERO).is_none());
            assert!(side.take("k", As::Reader, Duration::ZERO).is_none());
        }
        let left = stage.probe.ttl("lock:k").expect("it has an end");
        assert!(left <= LONG, "{left:?}");
    });
}
