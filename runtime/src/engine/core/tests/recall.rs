//! Tests of calls that a kept result answers, and of adopted locks.

use std::sync::Arc;

use super::*;
use crate::engine::core::ticket::{Adoption, Replay};
use crate::store::kept::{Fingerprint, Kept, Record};
use crate::store::{Give, GiveKind, TakeKind};

const PRINT: Fingerprint = Fingerprint([1; 32]);

fn kept() -> Arc<Kept> {
    Arc::new(Kept {
        fingerprint: Some(PRINT),
        json: "7".into(),
    })
}

fn replaying(number: u64, wait: Duration, fingerprint: Option<Fingerprint>) -> Acquire {
    Acquire {
        replay: Some(Box::new(Replay { fingerprint })),
        ..acquire(number, wait)
    }
}

/// Returns the id of the only request sent now, which must be a recall.
#[track_caller]
fn recalls(core: &mut Core, now: Instant) -> OpId {
    match &core.take_requests(now)[..] {
        [request] if matches!(&request.op, Op::Take(take) if take.kind == TakeKind::Recall) => {
            request.id
        }
        other => panic!("one recall was expected: {other:?}"),
    }
}

/// Several calls of one process wait, and the store answers the first one with a kept result. Fails
/// if this answer does not serve all `replay` calls. Also fails if a call without `replay` gets the
/// result, or does not request the lock afterwards.
#[test]
fn one_answer_serves_all_replay_calls() {
    let mut core = core();
    let other = Fingerprint([2; 32]);
    let prints = [Some(PRINT), None, Some(other)];
    for (number, print) in (1..).zip(prints) {
        core.acquire(TicketId(number), replaying(number, HOUR, print), START);
    }
    let plain = enter(&mut core, 4, HOUR, START);
    let op = recalls(&mut core, START);
    core.reply(op, Ok(Reply::Recalled(kept())), START);
    let signals = core.take_signals();
    let mismatch = LockError::mismatch("key");
    assert_eq!(
        signals,
        [
            Signal::Recalled(TicketId(1), kept()),
            Signal::Recalled(TicketId(2), kept()),
            Signal::Failed(TicketId(3), mismatch),
        ]
    );
    let op = asked(&mut core, START);
    core.reply(op, taken(1), START);
    assert!(core.take_signals().iter().any(|s| is_granted(s, plain)));
}

/// `replay` calls of two functions wait for one key. Fails if the kept result of one function
/// answers the call of the other, or if that call never asks the store.
#[test]
fn an_answer_serves_one_function() {
    let mut core = core();
    for (number, function) in [(1, "create"), (2, "cancel"), (3, "create")] {
        let acquire = Acquire {
            function,
            ..replaying(number, HOUR, None)
        };
        core.acquire(TicketId(number), acquire, START);
    }
    let op = recalls(&mut core, START);
    core.reply(op, Ok(Reply::Recalled(kept())), START);
    let of_create = [1, 3].map(|number| Signal::Recalled(TicketId(number), kept()));
    assert_eq!(core.take_signals(), of_create);
    recalls(&mut core, START);
}

/// Fails if a process keeps its turn at the store after a kept result has answered its only waiting
/// call.
#[test]
fn an_answered_call_leaves_the_queue() {
    let mut core = core();
    core.acquire(TicketId(1), replaying(1, HOUR, None), START);
    let op = recalls(&mut core, START);
    let queued = Reply::Held {
        owner: None,
        left: Some(TTL),
        queued: true,
    };
    core.reply(op, Ok(queued), START);
    core.called(&"key".into(), START);
    let op = recalls(&mut core, START);
    core.reply(op, Ok(Reply::Recalled(kept())), START);
    let requests = core.take_requests(START);
    assert!(
        matches!(&requests[..], [request] if matches!(request.op, Op::Leave { .. })),
        "{requests:?}"
    );
    core.reply(requests[0].id, Ok(Reply::Left), START);
    assert!(core.is_idle() && core.queues.is_empty());
}

/// A release also stores a result. Fails if the release, or its repetition after a time without an
/// answer, lacks the result. Also fails if the lock is handed over instead, because a hand-over
/// sends no request and so stores no result.
#[test]
fn a_result_is_sent_with_the_release() {
    let mut core = core();
    let first = TicketId(1);
    core.acquire(first, replaying(1, HOUR, None), START);
    let heir = enter(&mut core, 2, HOUR, START);
    let op = recalls(&mut core, START);
    let reply = Reply::Acquired {
        fence: Some(Fence::new(7)),
        reserved_fences: 1,
        wanted: Some(false),
    };
    core.reply(op, Ok(reply), START);
    core.take_signals();
    let record = Arc::new(Record {
        function: "",
        kept: kept(),
        stays: HOUR,
    });
    core.release_with(first, None, Arc::clone(&record), START);
    assert!(core.take_signals().is_empty(), "{heir:?} was handed it");
    let records = |requests: &[Request]| {
        let of_first = |request: &&Request| match &request.op {
            Op::Give(Give {
                token,
                kind: GiveKind::Record(sent),
                ..
            }) => *token == Token::fixed(1) && *sent == record,
            _ => false,
        };
        requests.iter().filter(of_first).count()
    };
    let requests = core.take_requests(START);
    assert_eq!((records(&requests), requests.len()), (1, 2), "{requests:?}");
    let later = START + 2 * IO_TIMEOUT;
    core.tick(later);
    assert_eq!(records(&core.take_requests(later)), 1, "unanswered");
}

/// Holds a lock and gives it away. Returns the parameters with which another core adopts it.
fn given_away(core: &mut Core) -> Adoption {
    let id = enter(core, 1, HOUR, START);
    let op = asked(core, START);
    core.reply(op, taken(7), START);
    core.take_signals();
    core.give_away(id, START);
    Adoption {
        from: Token::fixed(1),
        fence: Some(Fence::new(7)),
    }
}

/// Returns the id of the only request sent now, which must be an adoption.
#[track_caller]
fn adopts(core: &mut Core, now: Instant) -> OpId {
    match &core.take_requests(now)[..] {
        [request] if matches!(request.op, Op::Adopt { .. }) => request.id,
        other => panic!("one adoption was expected: {other:?}"),
    }
}

/// Fails if a given-away lock is renewed or released, or if the core does not become idle.
#[test]
fn a_given_away_lock_is_forgotten() {
    let mut core = core();
    given_away(&mut core);
    assert!(core.is_idle() && core.queues.is_empty());
    core.tick(START + TTL);
    assert!(silent(&mut core, START + TTL));
}

/// Fails if the lease of an adopted lock is not counted from the adoption request, or has the wrong
/// fence. Also fails if it does not block other calls of this process.
#[test]
fn an_adopted_lock_is_held() {
    let (mut core, id) = (core(), TicketId(2));
    let adoption = given_away(&mut core);
    core.adopt(id, acquire(2, ONE_TRY), adoption, START);
    let op = adopts(&mut core, START);
    let now = START + Duration::from_millis(100);
    core.reply(op, taken(7), now);
    let terms = Terms::new(TTL).expect("a usual ttl");
    let granted = Signal::Granted {
        ticket: id,
        deadline: terms.hard(START),
        fence: Some(Fence::new(7)),
    };
    assert_eq!(core.take_signals(), [granted]);
    let second = enter(&mut core, 3, ONE_TRY, now);
    assert!(core.take_signals().iter().any(|s| is_contended(s, second)));
    core.release(id, None, now);
    assert_eq!(releases(&core.take_requests(now)), 1);
}

/// Two adoptions of a lock are under way, and the second is answered first. Fails if the answer to
/// the first is not reported, so that the lock could not be handed over again.
#[test]
fn a_late_answer_to_an_adoption_is_reported() {
    let (mut core, id) = (core(), TicketId(2));
    let adoption = given_away(&mut core);
    core.adopt(id, acquire(2, ONE_TRY), adoption, START);
    let first = adopts(&mut core, START);
    let again = core.next_due().expect("it tries again");
    core.tick(again);
    let second = adopts(&mut core, again);
    core.reply(second, taken(7), again);
    assert!(core.take_signals().contains(&Signal::Settled(id, false)));
    core.reply(first, taken(7), again);
    assert_eq!(core.take_signals(), [Signal::Settled(id, true)]);
}

/// The fence in a handover may be wrong. The store gave the adopted lock the fences 7 to 10. Fails
/// if the adopter gets another fence.
#[test]
fn an_adopter_gets_only_fences_of_the_store() {
    let (token, first) = (Token::fixed(1), Some(Fence::new(7)));
    for (fence, expected) in [
        (Some(7), 7),
        (Some(9), 9),
        (Some(10), 10),
        (Some(6), 10),
        (Some(11), 10),
        (Some(u64::MAX), 10),
        (None, 10),
    ] {
        let fence = fence.map(Fence::new);
        let adoption = Adoption { from: token, fence };
        assert_eq!(adoption.fence_among(first, 3), Some(Fence::new(expected)));
        assert_eq!(adoption.fence_among(None, 0), None);
    }
}

/// Fails if a lost lock is adopted, or if the refused adoption is repeated.
#[test]
fn a_lost_lock_cannot_be_adopted() {
    let (mut core, id) = (core(), TicketId(2));
    let adoption = given_away(&mut core);
    core.adopt(id, acquire(2, ONE_TRY), adoption, START);
    let op = adopts(&mut core, START);
    core.reply(op, Ok(Reply::Gone), START);
    let lost = LockError::lost("key", Fence::new(7));
    assert_eq!(core.take_signals(), [Signal::Failed(id, lost)]);
    assert!(silent(&mut core, START) && core.is_idle());
}

/// Fails if a failed adoption is not repeated. Also fails if an adoption without an answer has no
/// time limit, or leaves its lock at the store.
#[test]
fn an_adoption_without_an_answer_is_undone() {
    let (mut core, id) = (core(), TicketId(2));
    let adoption = given_away(&mut core);
    core.adopt(id, acquire(2, ONE_TRY), adoption, START);
    let first = adopts(&mut core, START);
    core.reply(first, Err(no_script()), START);
    let again = core.next_due().expect("it tries again");
    core.tick(again);
    adopts(&mut core, again);
    let late = START + IO_TIMEOUT;
    core.tick(late);
    let signals = core.take_signals();
    assert!(
        matches!(&signals[..], [Signal::Failed(of, error)] if *of == id && error.is_unavailable()),
        "{signals:?}"
    );
    assert_eq!(releases(&core.take_requests(late)), 1, "it may be adopted");
}

/// The store is away, and a call of this process holds the key. Fails if an adoption of the key is
/// refused for another reason than the absence, unless the pool shuts down.
#[test]
fn an_adoption_is_not_contended_while_the_store_is_away() {
    let (mut core, id) = (core(), TicketId(2));
    enter(&mut core, 1, HOUR, START);
    let op = asked(&mut core, START);
    core.reply(op, taken(7), START);
    core.take_signals();
    let absence = no_script().error;
    let third = TicketId(3);
    core.refuse_absent(third, &acquire(3, ONE_TRY), absence.clone(), START);
    assert!(core.take_signals().iter().any(|s| is_contended(s, third)));
    core.refuse_adoption(id, absence.clone());
    assert_eq!(core.take_signals(), [Signal::Failed(id, absence.clone())]);
    core.shut_down(1, IO_TIMEOUT, START);
    core.refuse_adoption(id, absence);
    let closing = Signal::Failed(id, LockError::ShuttingDown);
    assert_eq!(core.take_signals(), [closing]);
}
