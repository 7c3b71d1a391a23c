//! Tests of batches. A batch is one request that renews many leases.

use std::collections::HashMap;

use super::*;
use crate::base::full_key::FullKey;
use crate::engine::core::ticket::Watchdog;

const INTERVAL: Duration = Duration::from_secs(3);

/// Creates a core with the leases of three keys, all counted from [`START`].
fn holding() -> Core {
    let mut core = core();
    for number in 1..=3 {
        let mut acquire = acquire(number, ONE_TRY);
        acquire.key = format!("key {number}").into();
        acquire.watchdog = Some(Watchdog {
            interval: INTERVAL,
            max_hold: None,
        });
        core.acquire(TicketId(number), acquire, START);
    }
    for request in core.take_requests(START) {
        core.reply(request.id, taken(request.id.0), START);
    }
    assert_eq!(core.take_signals().len(), 3);
    core
}

/// Moves the time to the core's next due time.
fn go_on(core: &mut Core) -> Instant {
    let due = core.next_due().expect("something is due");
    core.tick(due);
    due
}

/// Moves the time to the first renewal.
fn first_due(core: &mut Core) -> Instant {
    loop {
        // The timers set before the grants are due earlier, and send no requests.
        let due = go_on(core);
        if core.has_requests() {
            return due;
        }
    }
}

/// Returns the id of the only request sent now, which must renew all three leases.
#[track_caller]
fn renewal(core: &mut Core, now: Instant) -> OpId {
    match &core.take_requests(now)[..] {
        [request] => match &request.op {
            Op::Keep { renewals, .. } if renewals.len() == 3 => request.id,
            other => panic!("a renewal of all was expected: {other:?}"),
        },
        other => panic!("one renewal was expected: {other:?}"),
    }
}

/// Returns the keys renewed now. No other request may be sent.
#[track_caller]
fn renewed(core: &mut Core, now: Instant) -> Vec<FullKey> {
    let keys = |request: Request| match request.op {
        Op::Keep { renewals, .. } => renewals.into_iter().map(|renewal| renewal.key),
        other => panic!("a renewal was expected: {other:?}"),
    };
    core.take_requests(now).into_iter().flat_map(keys).collect()
}

fn lost(signals: &[Signal]) -> usize {
    let lost = |signal: &&Signal| matches!(signal, Signal::Lost(_));
    signals.iter().filter(lost).count()
}

/// Fails if unanswered renewals are not repeated, or if their leases do not end in time.
#[test]
fn unanswered_renewals_are_repeated_and_leases_end() {
    let mut core = holding();
    let due = first_due(&mut core);
    renewal(&mut core, due);
    let soft = Terms::new(TTL).expect("a usual ttl").soft(START);
    let mut again = HashMap::<_, u32>::new();
    let mut signals = Vec::new();
    let mut now = due;
    while signals.is_empty() {
        now = go_on(&mut core);
        assert!(now <= soft, "still held at {now:?}");
        for key in renewed(&mut core, now) {
            *again.entry(key).or_default() += 1;
        }
        signals = core.take_signals();
    }
    assert_eq!((lost(&signals), signals.len(), now), (3, 3, soft));
    let often = again.values().filter(|times| 1 < **times).count();
    assert_eq!(often, 3, "{again:?}");
}

/// An unanswered renewal is repeated, and then all answers report the leases as lost. Fails if one
/// lease counts as lost more than once.
#[test]
fn a_lost_lease_counts_once() {
    let mut core = holding();
    let mut now = first_due(&mut core);
    let mut sent = vec![renewal(&mut core, now)];
    while sent.len() < 3 {
        now = go_on(&mut core);
        sent.extend(core.take_requests(now).iter().map(|request| request.id));
    }
    for op in sent {
        core.reply(op, Ok(Reply::Renewed(vec![false; 3])), now);
    }
    assert_eq!(core.take_renewed().lost, 3);
}

/// Fails if a batch keeps its timer after its answer. The core's next due time must then be that of
/// the next renewal.
#[test]
fn an_answered_renewal_leaves_no_timer() {
    let mut core = holding();
    let due = first_due(&mut core);
    let op = renewal(&mut core, due);
    core.reply(op, Ok(Reply::Renewed(vec![true; 3])), due);
    assert_eq!(core.take_signals().len(), 3, "they were prolonged");
    let next = go_on(&mut core);
    assert!(due + INTERVAL - INTERVAL / 100 <= next, "{next:?}");
    renewal(&mut core, next);
}

/// Fails if leases whose outcome is missing from an answer are not renewed again soon.
#[test]
fn leases_missing_from_an_answer_are_renewed_again() {
    let mut core = holding();
    let due = first_due(&mut core);
    let op = renewal(&mut core, due);
    core.reply(op, Ok(Reply::Renewed(vec![true])), due);
    let mut again = 0;
    while again < 2 {
        let next = go_on(&mut core);
        assert!(next < due + INTERVAL / 2, "{again} at {next:?}");
        again += renewed(&mut core, next).len();
    }
}

/// Fails if unanswered renewals are not repeated as soon as there is a new connection.
#[test]
fn a_new_connection_repeats_unanswered_renewals_at_once() {
    let mut core = holding();
    let due = first_due(&mut core);
    renewal(&mut core, due);
    let later = due + Duration::from_millis(100);
    core.connected(later);
    core.tick(later);
    renewal(&mut core, later);
}

/// A lock is released during its renewal, and the answer then reports the lock as gone. Fails if
/// the core signals a loss, or does not extend the other leases.
#[test]
fn a_lock_released_during_its_renewal_stays_released() {
    let mut core = holding();
    let due = first_due(&mut core);
    let op = renewal(&mut core, due);
    core.release(TicketId(2), None, due);
    assert_eq!(releases(&core.take_requests(due)), 1);
    core.reply(op, Ok(Reply::Renewed(vec![true, false, true])), due);
    let prolonged = core.take_signals();
    let prolonged = prolonged.iter().map(|signal| match signal {
        Signal::Extended { ticket, .. } => ticket.0,
        other => panic!("{other:?}"),
    });
    assert_eq!(prolonged.collect::<Vec<_>>(), [1, 3]);
}

/// A downgrade with a long ttl fails, or gets no answer. Fails if the core repeats it only after a
/// pause that grows with the ttl. The caller of the downgrade waits for the answer.
#[test]
fn an_unconfirmed_downgrade_is_repeated_soon() {
    let later = Failure {
        retry: Retry::Later,
        ..no_script()
    };
    // The core waits at most 1 s for an answer. The pause before the retry is at most 1.5 s.
    for (failure, limit) in [(Some(later), 1_500), (None, 2_500)] {
        let (mut core, id) = (core(), TicketId(1));
        let long = Acquire {
            terms: Terms::new(24 * HOUR).expect("the longest ttl"),
            ..acquire(1, ONE_TRY)
        };
        core.acquire(id, long, START);
        let op = asked(&mut core, START);
        core.reply(op, taken(7), START);
        core.downgrade(id, START);
        let [stay] = &core.take_requests(START)[..] else {
            panic!("a downgrade is one request");
        };
        if let Some(failure) = failure {
            core.reply(stay.id, Err(failure), START);
        }
        let again = first_due(&mut core);
        let limit = START + Duration::from_millis(limit);
        assert!(again <= limit, "{again:?}");
        assert_eq!(renewed(&mut core, again).len(), 1);
    }
}
