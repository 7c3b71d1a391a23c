//! Tests of hand-overs, and of the process's place in the store's queue.

use std::time::Duration;

use super::{HOUR, IO_TIMEOUT, ONE_TRY, START, TTL, acquire, asked, core, enter, held, silent};
use crate::base::clock::Instant;
use crate::base::full_key::FullKey;
use crate::engine::core::Core;
use crate::engine::core::signal::Signal;
use crate::engine::core::ticket::{TicketId, Watchdog};
use crate::error::{LockError, StoreError};
use crate::fence::Fence;
use crate::store::{Failure, Op, OpId, Reply, Request, Retry};

const RESERVE: u32 = 20;

#[expect(clippy::unnecessary_wraps, reason = "the core takes outcomes")]
fn taken(wanted: bool) -> Result<Reply, Failure> {
    Ok(Reply::Acquired {
        fence: Some(Fence::new(100)),
        reserved_fences: RESERVE,
        wanted: Some(wanted),
    })
}

#[expect(clippy::unnecessary_wraps, reason = "the core takes outcomes")]
fn queued() -> Result<Reply, Failure> {
    Ok(Reply::Held {
        left: Some(TTL),
        queued: true,
        owner: None,
    })
}

fn lost_reply() -> Failure {
    Failure {
        error: LockError::Unavailable {
            source: StoreError::new("io", "the reply is lost"),
        },
        retry: Retry::Later,
        executed: true,
    }
}

/// Lets `calls` calls request the lock. The first of them gets it. `wanted` is true if another
/// process waits.
fn holding(core: &mut Core, calls: u64, wanted: bool) {
    for number in 1..=calls {
        enter(core, number, HOUR, START);
    }
    let op = asked(core, START);
    core.reply(op, taken(wanted), START);
    assert_eq!(granted(core), [(TicketId(1), 100)]);
}

/// Returns the tickets that got the lock now, each with its fence.
fn granted(core: &mut Core) -> Vec<(TicketId, u64)> {
    let signals = core.take_signals();
    let grants = signals.iter().filter_map(|signal| match signal {
        Signal::Granted { ticket, fence, .. } => Some((*ticket, fence.map_or(0, Fence::get))),
        _ => None,
    });
    grants.collect()
}

fn leaves(requests: &[Request]) -> usize {
    let leave = |request: &&Request| matches!(request.op, Op::Leave { .. });
    requests.iter().filter(leave).count()
}

/// Releases the lock of ticket `number`. Returns true if the next ticket gets it without a request.
fn hands_over(core: &mut Core, number: u64, now: Instant) -> bool {
    core.release(TicketId(number), None, now);
    let next = granted(core) == [(TicketId(number + 1), 100 + number)];
    next && core.take_requests(now).is_empty()
}

/// Forty calls of one process wait for a lock with 20 reserved fences. Fails if the hand-overs do
/// not end after the 20th, or after the 16th since another process began to wait, whichever is
/// earlier.
#[test]
fn a_turn_is_limited_by_waiters_and_reserved_fences() {
    for (wanted_after, expected) in [(None, 20), (Some(0), 16), (Some(2), 18), (Some(10), 20)] {
        let mut core = core();
        holding(&mut core, 40, false);
        let key: FullKey = "key".into();
        let handed_over = (1..=40).take_while(|number| {
            if wanted_after == Some(number - 1) {
                core.key_wanted(&key, START);
                // Repeated, because the store sends this message at each acquire of the other
                // process.
                core.key_wanted(&key, START);
            }
            hands_over(&mut core, *number, START)
        });
        assert_eq!(
            handed_over.count(),
            expected,
            "wanted after {wanted_after:?}"
        );
    }
}

/// Fails if a lock is handed over inside the process although a database transaction may still hold
/// it after the call.
#[test]
fn a_lock_in_a_transaction_is_handed_over_by_the_store() {
    let mut core = core();
    holding(&mut core, 3, false);
    core.may_be_pinned(TicketId(1));
    assert!(!hands_over(&mut core, 1, START));
    let mut core = self::core();
    holding(&mut core, 3, false);
    core.may_be_pinned(TicketId(2));
    assert!(hands_over(&mut core, 1, START), "2 does not hold it yet");
    core.may_be_pinned(TicketId(2));
    assert!(!hands_over(&mut core, 2, START));
}

/// Fails if a lock is handed over with less than half of its ttl left. Also fails if it is handed
/// over while an acquire or a renewal of it has no known outcome.
#[test]
fn an_unsettled_lock_is_not_handed_over() {
    // At `TTL / 2`, less than half is left, because the engine ends a lease before its full ttl.
    let mut core = self::core();
    holding(&mut core, 3, false);
    assert!(hands_over(&mut core, 1, START + TTL / 3));
    assert!(!hands_over(&mut core, 2, START + TTL / 2));

    // The first acquire gets no reply. So the server may still carry out that acquire later, even
    // after the second one.
    let mut core = self::core();
    enter(&mut core, 1, HOUR, START);
    enter(&mut core, 2, HOUR, START);
    let op = asked(&mut core, START);
    core.reply(op, Err(lost_reply()), START);
    let again = core.next_due().expect("it asks again");
    core.tick(again);
    let op = asked(&mut core, again);
    core.reply(op, taken(false), again);
    assert_eq!(granted(&mut core).len(), 1);
    assert!(!hands_over(&mut core, 1, again));

    // A renewal is under way.
    let mut core = self::core();
    let mut renewed = acquire(1, HOUR);
    renewed.watchdog = Some(Watchdog {
        interval: TTL / 3,
        max_hold: None,
    });
    core.acquire(TicketId(1), renewed, START);
    enter(&mut core, 2, HOUR, START);
    let op = asked(&mut core, START);
    core.reply(op, taken(false), START);
    assert_eq!(granted(&mut core).len(), 1);
    core.tick(START + TTL / 3);
    assert_eq!(core.take_requests(START + TTL / 3).len(), 1);
    assert!(!hands_over(&mut core, 1, START + TTL / 3));
}

/// Fails if the `max_hold` of a call includes the time in which earlier calls held the lock.
#[test]
fn max_hold_counts_separately_for_each_call() {
    let mut core = core();
    let limit = TTL / 2;
    for number in [1, 2] {
        let mut acquire = acquire(number, HOUR);
        acquire.watchdog = Some(Watchdog {
            interval: TTL / 3,
            max_hold: Some(limit),
        });
        core.acquire(TicketId(number), acquire, START);
    }
    let op = asked(&mut core, START);
    core.reply(op, taken(false), START);
    assert_eq!(granted(&mut core).len(), 1);
    let later = START + TTL / 4;
    assert!(hands_over(&mut core, 1, later));
    core.tick(START + TTL / 3);
    let requests = core.take_requests(START + TTL / 3);
    let renewed = Ok(Reply::Renewed(vec![true]));
    core.reply(requests[0].id, renewed, START + TTL / 3);
    core.take_signals();
    core.tick(START + limit);
    assert!(core.take_signals().is_empty(), "it has had it for less");
    core.tick(later + limit);
    assert_eq!(core.take_signals(), [Signal::Lost(TicketId(2))]);
}

/// Lets a call wait, so that the process has a place in the store's queue.
fn waiting(core: &mut Core) -> TicketId {
    let id = enter(core, 1, HOUR, START);
    let op = asked(core, START);
    core.reply(op, queued(), START);
    assert!(silent(core, START));
    id
}

/// Fails if a process keeps its place in the store's queue although no call waits, or gives up a
/// place that it does not have. Also fails if the core is idle before the store has answered the
/// request to leave the queue.
#[test]
fn a_place_in_the_queue_is_given_up_once() {
    let mut core = core();
    let id = waiting(&mut core);
    core.abandon(id, START);
    let requests = core.take_requests(START);
    assert_eq!((leaves(&requests), requests.len()), (1, 1));
    assert!(!core.is_idle(), "the request is under way");
    core.reply(requests[0].id, Ok(Reply::Left), START);
    assert!(core.is_idle());

    let mut core = self::core();
    let id = waiting(&mut core);
    core.called(&"key".into(), START);
    let op = asked(&mut core, START);
    core.reply(op, taken(false), START);
    assert_eq!(granted(&mut core).len(), 1);
    core.release(id, None, START);
    let requests = core.take_requests(START);
    assert_eq!((leaves(&requests), requests.len()), (0, 1), "it was served");

    let mut core = self::core();
    let id = enter(&mut core, 1, ONE_TRY, START);
    let op = asked(&mut core, START);
    core.reply(op, held(TTL), START);
    let refused = core.take_signals();
    assert!(matches!(refused[..], [Signal::Failed(of, _)] if of == id));
    assert!(silent(&mut core, START), "it never had a place");
}

/// The store has reserved a key for this process. Fails if the process does not give up this turn,
/// although none of its calls waits for the key.
#[test]
fn an_unused_turn_is_given_up() {
    let mut core = core();
    core.called(&"key".into(), START);
    assert_eq!(leaves(&core.take_requests(START)), 1);
}

/// This process gets the message that the store has reserved the key for it, and then the answer
/// "held" to an earlier acquire. Fails if the process does not ask again at once.
#[test]
fn a_turn_is_not_lost_behind_an_earlier_answer() {
    let mut core = core();
    waiting(&mut core);
    let look = core.next_due().expect("it looks from time to time");
    assert!(look.since(START) < Duration::from_secs(1), "{look:?}");
    core.tick(look);
    let crossing: OpId = asked(&mut core, look);
    core.called(&"key".into(), look);
    assert!(silent(&mut core, look), "a question is on its way");
    core.reply(crossing, queued(), look);
    let op = asked(&mut core, look);
    core.reply(op, taken(false), look);
    assert_eq!(granted(&mut core).len(), 1);
    assert!(look.since(START) < IO_TIMEOUT);
}
