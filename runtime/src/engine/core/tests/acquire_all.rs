//! Tests of one request for all locks of a call.

use super::*;

fn all(core: &mut Core, wait: Duration, now: Instant) -> [TicketId; 2] {
    let ids = [TicketId(1), TicketId(2)];
    let acquires = ids.map(|id| {
        let acquire = Acquire {
            key: format!("key {}", id.0).into(),
            ..acquire(id.0, ONE_TRY)
        };
        (id, acquire)
    });
    core.acquire_all(acquires.into(), wait, now);
    ids
}

#[track_caller]
fn asked_for_all(core: &mut Core, now: Instant) -> OpId {
    match &core.take_requests(now)[..] {
        [request] if matches!(request.op, Op::TakeAll { .. }) => request.id,
        other => panic!("one acquire of all was expected: {other:?}"),
    }
}

fn both() -> Reply {
    let one = |fence| Reply::Acquired {
        fence: Some(Fence::new(fence)),
        reserved_fences: 0,
        wanted: Some(false),
    };
    Reply::AcquiredAll(vec![one(1), one(2)])
}

fn outcomes(core: &mut Core) -> Vec<String> {
    let outcome = |signal| match signal {
        Signal::Granted { ticket, .. } => format!("granted {}", ticket.0),
        Signal::Failed(ticket, LockError::Contended { key, .. }) => {
            format!("contended {} {key}", ticket.0)
        }
        Signal::Apart(ticket) => format!("apart {}", ticket.0),
        other => format!("{other:?}"),
    };
    core.take_signals().into_iter().map(outcome).collect()
}

/// One request takes two locks. Fails if one of the two leases is not counted from the time at
/// which the request was sent.
#[test]
fn leases_of_one_request_have_one_deadline() {
    let mut core = core();
    let ids = all(&mut core, ONE_TRY, START);
    let op = asked_for_all(&mut core, START);
    let late = START + Duration::from_millis(300);
    core.reply(op, Ok(both()), late);
    let expected = Terms::new(TTL).expect("a usual ttl").hard(START);
    let signals = core.take_signals();
    let ends = signals.iter().filter_map(|signal| match signal {
        Signal::Granted { deadline, .. } => Some(*deadline),
        _ => None,
    });
    assert_eq!(ends.collect::<Vec<_>>(), [expected; 2]);
    for id in ids {
        core.release(id, None, late);
    }
    assert_eq!(releases(&core.take_requests(late)), 2);
}

/// Another client holds one of the two keys of a call. Fails if a call that tries once is not
/// refused. Also fails if a call that can wait is refused, instead of being asked (`Apart`) to
/// acquire its locks individually.
#[test]
fn one_held_key_prevents_taking_the_others() {
    let answer = || {
        Ok(Reply::HeldAmong {
            at: 1,
            left: Some(TTL),
            owner: None,
        })
    };
    let mut core = core();
    all(&mut core, ONE_TRY, START);
    let op = asked_for_all(&mut core, START);
    core.reply(op, answer(), START);
    let mut reported = outcomes(&mut core);
    reported.sort();
    assert_eq!(reported, ["apart 1", "contended 2 key 2"]);
    assert!(core.is_idle() && silent(&mut core, START));

    all(&mut core, HOUR, START);
    let op = asked_for_all(&mut core, START);
    core.reply(op, answer(), START);
    assert_eq!(outcomes(&mut core), ["apart 1", "apart 2"]);
    assert!(core.is_idle() && silent(&mut core, START));
}

/// Fails if a call requests several locks at once although another call of this process holds or
/// requests one of them.
#[test]
fn a_key_in_use_by_the_process_is_not_requested() {
    for answered in [false, true] {
        let mut core = core();
        let other = Acquire {
            key: "key 2".into(),
            ..acquire(7, HOUR)
        };
        core.acquire(TicketId(7), other, START);
        let op = asked(&mut core, START);
        if answered {
            core.reply(op, taken(1), START);
            core.take_signals();
        }
        all(&mut core, HOUR, START);
        assert_eq!(outcomes(&mut core), ["apart 1", "apart 2"]);
        assert!(silent(&mut core, START));
    }
}

/// One request for two keys has no answer yet. Fails if a later call for one of these keys asks the
/// store before the key is released, or never asks.
#[test]
fn a_call_during_a_request_waits_behind_it() {
    let mut core = core();
    let ids = all(&mut core, ONE_TRY, START);
    let op = asked_for_all(&mut core, START);
    let behind = Acquire {
        key: "key 2".into(),
        ..acquire(7, HOUR)
    };
    core.acquire(TicketId(7), behind, START);
    assert!(silent(&mut core, START));
    core.reply(op, Ok(both()), START);
    assert_eq!(outcomes(&mut core), ["granted 1", "granted 2"]);
    assert!(silent(&mut core, START));
    core.release(ids[1], None, START);
    let requests = core.take_requests(START);
    let asks = |request: &Request| matches!(request.op, Op::Take(_));
    assert!(requests.iter().any(asks), "{requests:?}");
}

/// The store answers one request for two locks with an error. Fails if the locks are not requested
/// again individually, or are requested with other tokens.
#[test]
fn a_failed_request_is_repeated_with_the_same_tokens() {
    let mut core = core();
    let ids = all(&mut core, ONE_TRY, START);
    let op = asked_for_all(&mut core, START);
    core.reply(op, Err(no_script()), START);
    let requests = core.take_requests(START);
    let tokens = requests.iter().map(|request| match &request.op {
        Op::Take(take) => (take.token, take.queue),
        other => panic!("{other:?}"),
    });
    let expected = ids.map(|id| (Token::fixed(id.0.into()), false));
    assert_eq!(tokens.collect::<Vec<_>>(), expected);
    for (request, fence) in requests.iter().zip(1..) {
        core.reply(request.id, taken(fence), START);
    }
    assert_eq!(outcomes(&mut core), ["granted 1", "granted 2"]);
}

/// The first answer to a request for two locks comes after both are granted individually. Fails if
/// this answer is not reported, so that the locks could not be handed over.
#[test]
fn a_late_answer_for_all_is_reported() {
    let late_answers = [
        Ok(Reply::HeldAmong {
            at: 1,
            left: None,
            owner: None,
        }),
        Ok(both()),
    ];
    for late in late_answers {
        let mut core = core();
        let ids = all(&mut core, ONE_TRY, START);
        let first = asked_for_all(&mut core, START);
        core.connected(START);
        for (request, fence) in core.take_requests(START).iter().zip(1..) {
            core.reply(request.id, taken(fence), START);
        }
        core.take_signals();
        core.reply(first, late, START);
        assert_eq!(core.take_signals(), ids.map(|id| Signal::Settled(id, true)));
    }
}

/// A call is dropped while its request for two locks has no answer. Fails if the locks are not
/// removed, or if a removal can overtake that request.
#[test]
fn an_abandoned_request_is_undone() {
    let mut core = core();
    let ids = all(&mut core, ONE_TRY, START);
    let op = asked_for_all(&mut core, START);
    for id in ids {
        core.abandon(id, START);
    }
    let requests = core.take_requests(START);
    let undone = requests.iter().map(|request| match &request.op {
        Op::Give(give) => (give.token, give.after.clone()),
        other => panic!("{other:?}"),
    });
    let expected = ids.map(|id| (Token::fixed(id.0.into()), vec![op]));
    assert_eq!(undone.collect::<Vec<_>>(), expected);
    core.reply(op, Ok(both()), START);
    assert!(outcomes(&mut core).is_empty(), "the caller is gone");
    for request in &requests {
        let (found, ordered) = (true, true);
        core.reply(request.id, Ok(Reply::Released { found, ordered }), START);
    }
    assert!(core.is_idle());
}

/// A call for two locks runs out of time before the answer. Fails if one of its tickets does not
/// end, or if the late answer grants a lock.
#[test]
fn the_tickets_of_a_call_share_its_budget() {
    let wait = Duration::from_millis(50);
    let mut core = core();
    all(&mut core, wait, START);
    let op = asked_for_all(&mut core, START);
    let late = START + wait;
    core.tick(late);
    let failed = core.take_signals();
    assert_eq!(failed.len(), 2, "{failed:?}");
    assert_eq!(releases(&core.take_requests(late)), 2);
    core.reply(op, Ok(both()), late);
    assert!(outcomes(&mut core).is_empty());
}
