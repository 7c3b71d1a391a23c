//! Tests of locks that stay taken after their release, until a time set while they were held.

use super::*;

const MILLI: Duration = Duration::from_millis(1);

/// Creates a core that holds a lock or a share, which must stay taken until `until`.
fn held_until(share: Option<Share>, until: Instant) -> (Core, TicketId) {
    let mut core = core();
    let id = TicketId(1);
    let acquire = Acquire {
        share,
        ..acquire(1, ONE_TRY)
    };
    core.acquire(id, acquire, START);
    let op = asked(&mut core, START);
    core.reply(op, taken(7), START);
    core.keep_until(id, until);
    core.take_signals();
    (core, id)
}

/// Returns a grant with one reserved fence, so that the lock may be handed over.
#[expect(clippy::unnecessary_wraps, reason = "the core takes outcomes")]
fn with_reserve() -> Result<Reply, Failure> {
    Ok(Reply::Acquired {
        fence: Some(Fence::new(7)),
        reserved_fences: 1,
        wanted: Some(false),
    })
}

/// Returns the time for which the only request sent now keeps the lock. It must be a removal.
#[track_caller]
fn keeps(core: &mut Core, now: Instant) -> Option<Duration> {
    match &core.take_requests(now)[..] {
        [request] => match &request.op {
            Op::Give(give) => give.keep,
            other => panic!("a removal was expected: {other:?}"),
        },
        other => panic!("one removal was expected: {other:?}"),
    }
}

/// A lock must stay taken until a fixed time. Fails if its release, or the drop of its call, keeps
/// it for a shorter or longer time.
#[test]
fn a_kept_lock_stays_after_any_end() {
    type End = fn(&mut Core, TicketId, Instant);
    let released: End = |core, id, now| core.release(id, None, now);
    let dropped: End = |core, id, now| core.abandon(id, now);
    let until = START + TTL / 2;
    for share in [None, Some(Share::Reader), Some(Share::Permit(3))] {
        for end in [released, dropped] {
            for (after, rest) in [
                (Duration::ZERO, Some(TTL / 2)),
                (TTL / 4, Some(TTL / 4)),
                ((TTL / 2).saturating_sub(MILLI / 2), Some(MILLI)),
                (TTL / 2, None),
            ] {
                let (mut core, id) = held_until(share, until);
                end(&mut core, id, START + after);
                assert_eq!(keeps(&mut core, START + after), rest, "{share:?} {after:?}");
            }
        }
    }
}

/// A lock must stay taken for two ttls, but its lease is lost after one, and its call is then
/// dropped. Fails if the removal leaves the key free.
#[test]
fn a_lost_lock_stays_kept_in_the_store() {
    let (mut core, id) = held_until(None, START + 2 * TTL);
    let end = START + TTL;
    core.tick(end);
    assert_eq!(core.take_signals(), [Signal::Lost(id)]);
    core.abandon(id, end);
    assert_eq!(keeps(&mut core, end), Some(TTL));
}

/// A removal is repeated, because it got no answer. Fails if the repetition keeps the lock until a
/// later or earlier time than the first removal.
#[test]
fn a_repeated_removal_keeps_the_remaining_time() {
    let until = START + TTL / 2;
    let (mut core, id) = held_until(None, until);
    core.release(id, None, START);
    assert_eq!(keeps(&mut core, START), Some(TTL / 2));
    let later = START + 2 * IO_TIMEOUT;
    core.tick(later);
    let left = until.since(later);
    assert_eq!(keeps(&mut core, later), Some(left));
    core.tick(until);
    assert_eq!(keeps(&mut core, until), None);
}

/// Fails if a lock with a `min_hold` and a `cooldown` is freed at the earlier of their two ends.
#[test]
fn the_later_of_two_hold_ends_counts() {
    for (cooldown, rest) in [(TTL / 4, TTL / 2), (TTL, TTL)] {
        let (mut core, id) = held_until(None, START + TTL / 2);
        core.release(id, Some(cooldown), START);
        assert_eq!(keeps(&mut core, START), Some(rest));
    }
}

/// Fails if a lock is handed over while it must stay taken, or is not handed over afterwards.
#[test]
fn a_kept_lock_is_handed_over_only_after_its_time() {
    let until = START + TTL / 4;
    for (now, handed_over) in [(START, false), (until - MILLI, false), (until, true)] {
        let mut core = core();
        let first = enter(&mut core, 1, HOUR, START);
        let second = enter(&mut core, 2, HOUR, START);
        let op = asked(&mut core, START);
        core.reply(op, with_reserve(), START);
        core.keep_until(first, until);
        core.take_signals();
        core.abandon(first, now);
        let signals = core.take_signals();
        let granted = signals.iter().any(|signal| is_granted(signal, second));
        assert_eq!(granted, handed_over, "{:?}", now.since(START));
    }
}

/// Fails if a call gets a lock by a hand-over although the remaining lease is shorter than the
/// call's `min_hold`. Also fails if there is no hand-over although the lease lasts long enough.
#[test]
fn an_inherited_lock_stays_for_its_full_time() {
    for (after, min_hold, handed_over) in [
        (Duration::ZERO, TTL, true),
        (MILLI, TTL, false),
        (TTL / 4, TTL / 2, true),
    ] {
        let mut core = core();
        let first = enter(&mut core, 1, HOUR, START);
        let heir = TicketId(2);
        let acquire = Acquire {
            min_hold: Some(min_hold),
            ..acquire(2, HOUR)
        };
        core.acquire(heir, acquire, START);
        let op = asked(&mut core, START);
        core.reply(op, with_reserve(), START);
        core.take_signals();
        core.release(first, None, START + after);
        let signals = core.take_signals();
        let granted = signals.iter().any(|signal| is_granted(signal, heir));
        assert_eq!(granted, handed_over, "{after:?} {min_hold:?}");
    }
}

/// Fails if `keep_until` has an effect before the grant or after the call has given the lock up.
#[test]
fn only_a_held_lock_is_kept() {
    let mut core = core();
    let id = enter(&mut core, 1, HOUR, START);
    core.keep_until(id, START + TTL);
    let op = asked(&mut core, START);
    core.reply(op, taken(7), START);
    core.abandon(id, START);
    core.keep_until(id, START + TTL);
    assert_eq!(keeps(&mut core, START), None);
}
