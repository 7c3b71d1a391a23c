//! Tests of removals for which the store answers that the lock is already gone. The answer proves a
//! lost lease only if nothing else can have removed the lock.

use super::*;
use crate::engine::core::ticket::{Removal, Watchdog};

/// Takes a lock with the parameters `acquire`.
fn held_as(core: &mut Core, acquire: Acquire) -> TicketId {
    let id = TicketId(1);
    core.acquire(id, acquire, START);
    let op = asked(core, START);
    core.reply(op, taken(7), START);
    core.take_signals();
    id
}

fn share(share: Share) -> Acquire {
    Acquire {
        share: Some(share),
        ..acquire(1, ONE_TRY)
    }
}

/// Returns the id of the only request sent now, which must be a removal.
#[track_caller]
fn removal(core: &mut Core, now: Instant) -> OpId {
    match &core.take_requests(now)[..] {
        [request] if matches!(request.op, Op::Give(_)) => request.id,
        other => panic!("one removal was expected: {other:?}"),
    }
}

#[expect(clippy::unnecessary_wraps, reason = "the core takes outcomes")]
fn missed() -> Result<Reply, Failure> {
    Ok(Reply::Released {
        found: false,
        ordered: true,
    })
}

fn broken() -> Failure {
    Failure {
        executed: true,
        retry: Retry::Later,
        ..no_script()
    }
}

/// Returns the outcomes of the releases that the core signals now.
fn ends(core: &mut Core) -> Vec<Removal> {
    let removal = |signal| match signal {
        Signal::Released { removal, .. } => Some(removal),
        _ => None,
    };
    core.take_signals()
        .into_iter()
        .filter_map(removal)
        .collect()
}

/// The store answers that a released lock was already gone, which proves a loss. Fails if the core
/// does not report the loss, for any kind of lock, with or without a waiting caller.
#[test]
fn a_certain_answer_that_the_lock_is_gone_is_reported() {
    let permit = share(Share::Permit(3));
    for acquire in [acquire(1, ONE_TRY), share(Share::Reader), permit] {
        for awaited in [true, false] {
            let mut core = core();
            let id = held_as(&mut core, acquire.clone());
            if awaited {
                core.release(id, None, START);
            } else {
                core.abandon(id, START);
            }
            let op = removal(&mut core, START);
            core.reply(op, missed(), START);
            assert_eq!(ends(&mut core), [Removal::Gone], "{acquire:?} {awaited}");
            assert!(core.is_idle(), "there is nothing more to remove");
        }
    }
}

/// The store answers that a released lock was already gone. Fails if the core does not report this
/// loss for a downgraded lock, or for a release that keeps the key taken.
#[test]
fn losses_of_kept_and_downgraded_locks_are_reported() {
    let mut kept = core();
    let id = held_as(&mut kept, acquire(1, ONE_TRY));
    kept.release(id, Some(TTL), START);
    let op = removal(&mut kept, START);
    kept.reply(op, missed(), START);
    assert_eq!(ends(&mut kept), [Removal::Gone]);

    let mut shared = core();
    let id = held_as(&mut shared, acquire(1, ONE_TRY));
    shared.downgrade(id, START);
    let [stay] = &shared.take_requests(START)[..] else {
        panic!("a downgrade is one request");
    };
    shared.reply(stay.id, Ok(Reply::Renewed(vec![true])), START);
    shared.take_signals();
    shared.release(id, None, START);
    let op = removal(&mut shared, START);
    shared.reply(op, missed(), START);
    assert_eq!(ends(&mut shared), [Removal::Gone]);
}

/// The caller of a downgrade gives up and calls it again. Fails if the second call is answered
/// before the store has confirmed the first.
#[test]
fn a_repeated_downgrade_waits_for_the_answer() {
    let mut core = core();
    let id = held_as(&mut core, acquire(1, ONE_TRY));
    core.downgrade(id, START);
    let [stay] = &core.take_requests(START)[..] else {
        panic!("a downgrade is one request");
    };
    core.downgrade(id, START);
    assert!(silent(&mut core, START));
    core.reply(stay.id, Ok(Reply::Renewed(vec![true])), START);
    assert!(core.take_signals().contains(&Signal::Shared(id)));
    core.downgrade(id, START);
    assert_eq!(core.take_signals(), [Signal::Shared(id)]);
}

/// An exclusive renewal reaches the store after the downgrade, and finds no exclusive lock. Fails
/// if the share is then lost.
#[test]
fn a_late_renewal_of_the_exclusive_lock_ends_no_share() {
    let mut core = core();
    let watched = Acquire {
        watchdog: Some(Watchdog {
            interval: TTL / 4,
            max_hold: None,
        }),
        ..acquire(1, ONE_TRY)
    };
    let id = held_as(&mut core, watched);
    let (now, renewal) = loop {
        let now = core.next_due().expect("a renewal is planned");
        core.tick(now);
        if let [renewal] = &core.take_requests(now)[..] {
            break (now, renewal.id);
        }
    };
    core.downgrade(id, now);
    let [stay] = &core.take_requests(now)[..] else {
        panic!("a downgrade is one request");
    };
    core.reply(stay.id, Ok(Reply::Renewed(vec![true])), now);
    core.take_signals();
    core.reply(renewal, Ok(Reply::Renewed(vec![false])), now);
    assert!(!core.take_signals().contains(&Signal::Lost(id)));
}

/// The first try of a removal has an unknown outcome, and the second try finds no lock. Fails if
/// the core reports a loss, although the first try may have removed the lock.
#[test]
fn a_lock_removed_by_an_earlier_try_is_not_missed() {
    let mut core = core();
    let id = held_as(&mut core, acquire(1, ONE_TRY));
    core.release(id, None, START);
    let op = removal(&mut core, START);
    core.reply(op, Err(broken()), START);
    let later = START + IO_TIMEOUT;
    core.tick(later);
    let op = removal(&mut core, later);
    core.reply(op, missed(), later);
    let reported = ends(&mut core);
    assert!(!reported.contains(&Removal::Gone), "{reported:?}");
    assert!(core.is_idle());
}

/// Two tries of a removal are under way, and one of them finds no lock. Fails if the core reports a
/// loss, although the other try may have removed the lock.
#[test]
fn two_concurrent_tries_report_no_loss() {
    for first_answers in [true, false] {
        let mut core = core();
        let id = held_as(&mut core, acquire(1, ONE_TRY));
        core.release(id, None, START);
        let first = removal(&mut core, START);
        core.connected(START);
        core.tick(START);
        let second = removal(&mut core, START);
        let op = if first_answers { first } else { second };
        core.reply(op, missed(), START);
        assert_eq!(ends(&mut core), [Removal::Confirmed], "{first_answers}");
    }
}

/// The server did not carry out the first try of a release, and the second try finds no lock. Fails
/// if the core does not report a loss.
#[test]
fn a_lock_missing_after_a_refused_try_is_reported() {
    let mut core = core();
    let id = held_as(&mut core, acquire(1, ONE_TRY));
    core.release(id, None, START);
    let op = removal(&mut core, START);
    core.reply(op, Err(no_script()), START);
    core.tick(START);
    let op = removal(&mut core, START);
    core.reply(op, missed(), START);
    assert_eq!(ends(&mut core), [Removal::Gone]);
}

/// A caller was notified of a lost lease, and its release then finds no lock. Fails if the core
/// reports the same loss again, and so counts it twice.
#[test]
fn a_known_loss_is_reported_once() {
    let mut core = core();
    let id = held_as(&mut core, acquire(1, ONE_TRY));
    let end = START + TTL;
    core.tick(end);
    assert_eq!(core.take_signals(), [Signal::Lost(id)]);
    core.release(id, None, end);
    let op = removal(&mut core, end);
    core.reply(op, missed(), end);
    assert_eq!(ends(&mut core), [Removal::Confirmed]);
}

/// The removal after an abandoned acquire finds no lock, because the call never got it. Fails if
/// the core reports a loss.
#[test]
fn an_abandoned_acquire_reports_no_loss() {
    let mut core = core();
    let id = enter(&mut core, 1, ONE_TRY, START);
    let op = asked(&mut core, START);
    core.abandon(id, START);
    let removing = removal(&mut core, START);
    core.reply(op, held(TTL), START);
    core.reply(removing, missed(), START);
    let reported = ends(&mut core);
    assert!(!reported.contains(&Removal::Gone), "{reported:?}");
}

/// A call sends its acquire twice and gets only the second answer. Its removal then finds no lock.
/// Fails if the core reports a loss, although the outcome of the first acquire is unknown.
#[test]
fn an_open_acquire_makes_a_loss_uncertain() {
    let mut core = core();
    let id = enter(&mut core, 1, HOUR, START);
    let first = asked(&mut core, START);
    core.connected(START);
    let second = asked(&mut core, START);
    core.reply(second, taken(7), START);
    core.take_signals();
    core.release(id, None, START);
    let op = removal(&mut core, START);
    core.reply(op, missed(), START);
    assert_eq!(ends(&mut core), [Removal::Confirmed]);
    core.reply(first, held(TTL), START);
}

/// Fails if a removal reports a loss although the key may have expired while the removal was under
/// way.
#[test]
fn a_possibly_expired_lock_is_not_missed() {
    for (answered, ended) in [
        (START + TTL / 2, Removal::Gone),
        (START + TTL, Removal::Confirmed),
    ] {
        let mut core = core();
        let id = held_as(&mut core, acquire(1, ONE_TRY));
        core.abandon(id, START);
        let op = removal(&mut core, START);
        core.reply(op, missed(), answered);
        let reported = ends(&mut core);
        assert_eq!(reported.contains(&Removal::Gone), ended == Removal::Gone);
        assert!(core.is_idle());
    }
}

/// The first try of a removal fails with a permanent error, and the second try finds no lock. Fails
/// if the core reports a loss, although the first try may have removed the lock.
#[test]
fn a_try_with_a_permanent_error_may_have_removed_the_lock() {
    let mut core = core();
    let id = held_as(&mut core, acquire(1, ONE_TRY));
    core.release(id, None, START);
    let op = removal(&mut core, START);
    let refused = Failure {
        retry: Retry::Never,
        ..no_script()
    };
    core.reply(op, Err(refused), START);
    let later = START + IO_TIMEOUT;
    core.tick(later);
    let op = removal(&mut core, later);
    core.reply(op, missed(), later);
    let reported = ends(&mut core);
    assert!(!reported.contains(&Removal::Gone), "{reported:?}");
}

/// A call is notified of a lost lease. Its body then returns, and the release asks for a
/// `cooldown`. Fails if the request to the store does not keep the key taken.
#[test]
fn a_lock_is_kept_for_a_late_body() {
    let mut core = core();
    let id = held_as(&mut core, acquire(1, ONE_TRY));
    let end = START + TTL;
    core.tick(end);
    assert_eq!(core.take_signals(), [Signal::Lost(id)]);
    core.release(id, Some(TTL), end);
    match &core.take_requests(end)[..] {
        [request] => {
            assert!(matches!(&request.op, Op::Give(give) if give.keep.is_some()));
        }
        other => panic!("one removal was expected: {other:?}"),
    }
}

/// The lease of a call is over when its release or its drop reaches the core, before the core's
/// timer has noticed the end. Fails if the core does not report the loss, or reports it twice.
#[test]
fn a_lease_that_is_over_when_its_holder_leaves_is_lost() {
    let end = Terms::new(TTL).expect("a usual ttl").hard(START);
    for awaited in [true, false] {
        let mut core = core();
        let id = held_as(&mut core, acquire(1, ONE_TRY));
        if awaited {
            core.release(id, None, end);
        } else {
            core.abandon(id, end);
        }
        assert_eq!(core.take_signals(), [Signal::Lost(id)], "{awaited}");
        let op = removal(&mut core, end);
        core.reply(op, missed(), end);
        let reported = ends(&mut core);
        assert!(!reported.contains(&Removal::Gone), "{reported:?}");
        assert_eq!(reported.len(), usize::from(awaited));
        assert!(core.is_idle());
    }
}

/// The `max_hold` of a call is over when its release reaches the core, and another call waits.
/// Fails if the core hands the lock over without a request, as after a release in time.
#[test]
fn a_lock_past_its_max_hold_is_not_handed_over() {
    let mut core = core();
    let (id, limit) = (TicketId(1), TTL / 10);
    let limited = Acquire {
        watchdog: Some(Watchdog {
            interval: TTL / 4,
            max_hold: Some(limit),
        }),
        ..acquire(1, ONE_TRY)
    };
    core.acquire(id, limited, START);
    let next = enter(&mut core, 2, HOUR, START);
    let op = asked(&mut core, START);
    let reply = Reply::Acquired {
        fence: Some(Fence::new(7)),
        reserved_fences: 1,
        wanted: Some(false),
    };
    core.reply(op, Ok(reply), START);
    core.take_signals();
    let end = START + limit;
    core.release(id, None, end);
    assert_eq!(core.take_signals(), [Signal::Lost(id)]);
    let requests = core.take_requests(end);
    let [give, take] = &requests[..] else {
        panic!("a removal and an acquire were expected: {requests:?}");
    };
    assert!(matches!(give.op, Op::Give(_)), "{give:?}");
    core.reply(take.id, taken(9), end);
    assert!(core.take_signals().iter().any(|s| is_granted(s, next)));
}
