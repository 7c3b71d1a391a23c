//! Tests of the lease cell, from the side of the caller and of the engine.

use std::future::Future;

use super::*;
use crate::selftest::fixtures::{LONG, counting};

fn held() -> Arc<LeaseCell> {
    let cell = LeaseCell::new("key".into(), Clock::System, false);
    assert!(cell.grant(Clock::System.now() + LONG, None).is_none());
    cell
}

/// Fails if the end of a release wakes a caller that has not polled for this end yet: such a caller
/// is awake. Also fails if a caller that waits, for this end or for its lock, is not woken.
#[test]
fn a_caller_is_woken_only_if_it_waits_for_its_release() {
    let (task, _) = counting();
    let cx = Context::from_waker(&task);
    let awake = held();
    assert!(awake.register(&cx), "as a body that waits for something");
    awake.close();
    let released = awake.release(Removal::Confirmed);
    assert!(matches!(released, Some(Parting::Drop(_))));
    assert_eq!(awake.poll_released(&cx), Poll::Ready(Removal::Confirmed));
    let asleep = held();
    asleep.close();
    assert!(asleep.poll_released(&cx).is_pending());
    let released = asleep.release(Removal::Confirmed);
    assert!(matches!(released, Some(Parting::Wake(_))));
    let refused = LeaseCell::new("key".into(), Clock::System, false);
    assert!(refused.poll_granted(&cx).is_pending());
    let notified = refused.release(Removal::Unknown);
    assert!(
        matches!(notified, Some(Parting::Wake(_))),
        "is asked to request otherwise"
    );
}

/// Fails if a body misses a loss that comes before it waits, or while it waits.
#[test]
fn a_waiting_body_does_not_miss_a_loss() {
    let (task, _) = counting();
    let cx = Context::from_waker(&task);
    let before = held();
    assert!(before.lose().is_none() && !before.register(&cx));
    let after = held();
    assert!(after.register(&cx) && after.lose().is_some());
}

/// Several tasks wait for the end of a lease. Fails if the end does not wake all of them, or if a
/// task still waits after the end.
#[test]
fn all_watchers_are_notified_of_the_end() {
    let cell = held();
    let (task, woken) = counting();
    let mut cx = Context::from_waker(&task);
    let (mut one, mut other) = (Box::pin(cell.over()), Box::pin(cell.over()));
    assert!(one.as_mut().poll(&mut cx).is_pending());
    assert!(other.as_mut().poll(&mut cx).is_pending());
    cell.close();
    assert_eq!(woken(), 2);
    assert!(one.as_mut().poll(&mut cx).is_ready());
    assert!(other.as_mut().poll(&mut cx).is_ready());
    let mut late = Box::pin(cell.over());
    assert!(late.as_mut().poll(&mut cx).is_ready());
}
