use super::*;
use crate::error::LockError;
use crate::testing::kit::Kit;

const TTL: Duration = Duration::from_secs(10);

fn caller(number: u32) -> Caller {
    Caller {
        number,
        other: false,
        function: "",
    }
}

/// Returns a history of one key with one event per second. Each element of `events` is the number
/// of a caller and the kind of its event. After a grant or renewal, the lease lasts for `TTL`.
fn history(events: &[(u32, EventKind)]) -> History {
    let events = events.iter().zip(0..).map(|((number, kind), at)| Event {
        at: Duration::from_secs(at),
        key: "k".to_owned(),
        caller: caller(*number),
        kind: kind.clone(),
        until: Some(Duration::from_secs(at) + TTL),
    });
    History::new(events.collect())
}

fn granted(mode: Mode) -> EventKind {
    EventKind::Granted { mode, fence: None }
}

/// Another call gets the lock after call 1. Fails if the history reports no overlap while call 1
/// holds the lock, or reports one after call 1 has ended.
#[test]
fn a_second_holder_overlaps_until_the_first_one_ends() {
    let take = || granted(Mode::Exclusive);
    let both = history(&[(1, take()), (2, take())]);
    assert!(!both.is_exclusive());
    assert!(
        both.to_string()
            .contains("<-- OVERLAPS: call 1 has had it since 0.000s"),
        "{both}"
    );
    for end in [
        EventKind::Lost,
        EventKind::Released,
        EventKind::Dropped,
        EventKind::Died,
    ] {
        let after = history(&[(1, take()), (1, end.clone()), (2, take())]);
        assert!(after.is_exclusive(), "{after}");
        let before = history(&[(1, take()), (2, take()), (1, end.clone())]);
        assert!(!before.is_exclusive(), "{before}");
        let of_another = history(&[(1, take()), (3, end), (2, take())]);
        assert!(!of_another.is_exclusive(), "{of_another}");
    }
    let refused = EventKind::Refused(LockError::contended("k", None));
    let beside = history(&[(1, take()), (2, refused), (3, take())]);
    assert!(!beside.is_exclusive(), "{beside}");
}

/// Call 2 gets the lock near the end of call 1's lease. Fails if the history reports an overlap at
/// the end of this lease, misses one just before, or ignores a renewal.
#[test]
fn a_holder_ends_with_its_lease() {
    let take = || granted(Mode::Exclusive);
    let mut late = history(&[(1, take()), (2, take())]);
    late.events[1].at = TTL;
    assert!(late.is_exclusive(), "{late}");
    late.events[1].at = Duration::from_millis(9_999);
    assert!(!late.is_exclusive(), "{late}");
    let mut renewed = history(&[(1, take()), (1, EventKind::Renewed), (2, take())]);
    renewed.events[2].at = TTL;
    assert!(!renewed.is_exclusive(), "{renewed}");
}

/// Several calls hold one key at the same time. Fails if the history misses an overlap of modes
/// that exclude each other, or reports one for modes that may share the key.
#[test]
fn lock_modes_share_or_exclude_correctly() {
    use Mode::{Exclusive, Permit, Shared};
    for (modes, fits) in [
        (vec![Shared, Shared, Shared], true),
        (vec![Permit(2), Permit(2)], true),
        (vec![Permit(2), Permit(2), Permit(2)], false),
        (vec![Shared, Exclusive], false),
        (vec![Exclusive, Shared], false),
        (vec![Permit(3), Exclusive], false),
        (vec![Permit(3), Shared], false),
        (vec![Permit(1), Permit(2)], true),
    ] {
        let events: Vec<_> = modes
            .iter()
            .zip(1..)
            .map(|(mode, call)| (call, granted(*mode)))
            .collect();
        assert_eq!(history(&events).is_exclusive(), fits, "{modes:?}");
    }
    let downgraded = history(&[
        (1, granted(Exclusive)),
        (1, EventKind::Downgraded),
        (2, granted(Shared)),
    ]);
    assert!(downgraded.is_exclusive(), "{downgraded}");
}

/// Fails if grants of two different keys count as an overlap. Also fails if a release by `other 1`
/// ends the hold of `call 1`, which has the same number.
#[test]
fn other_keys_and_callers_do_not_count() {
    let take = || granted(Mode::Exclusive);
    let mut two = history(&[(1, take()), (2, take())]);
    two.events[1].key = "l".to_owned();
    assert!(two.is_exclusive(), "{two}");
    let mut other = history(&[(1, take()), (1, EventKind::Released), (2, take())]);
    other.events[1].caller.other = true;
    assert!(!other.is_exclusive(), "{other}");
}

/// The store grants each lock to every call, so two real calls hold one key at the same time. Fails
/// if the history misses this overlap, or reports another one after both releases.
#[cfg(feature = "__test")]
#[tokio::test]
async fn a_store_without_exclusion_is_detected() {
    let kit = Kit::on_nothing().await;
    let request = || kit.pool().lock("order:42").ttl(TTL).acquire();
    let (one, two) = (kit.hold("order:42").await, request().await);
    let two = two.expect("the store refuses nothing");
    let overlapping = kit.history();
    assert!(!overlapping.is_exclusive(), "{overlapping}");
    assert!(
        overlapping.to_string().contains("<-- OVERLAPS: other 1"),
        "{overlapping}"
    );
    one.release().await;
    two.release().await.expect("it lasts");
    let third = request().await.expect("the store refuses nothing");
    assert_eq!(kit.history().to_string().matches("OVERLAPS").count(), 1);
    drop(third);
}
