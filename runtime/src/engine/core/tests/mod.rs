//! Tests that drive the core step by step. The comment of each test names the mistake that the test
//! would find.

use std::time::Duration;

use super::ticket::{Acquire, Share, SiteId, TicketId};
use super::{Core, Limits, Signal};
use crate::base::clock::Instant;
use crate::base::label::Label;
use crate::base::lease_terms::Terms;
use crate::base::token::Token;
use crate::error::{LockError, StoreError};
use crate::fence::Fence;
use crate::store::{Failure, Op, OpId, Reply, Request, Retry};

mod acquire_all;
mod gone;
mod hand_over;
mod hold_times;
mod kept;
mod make_way;
mod probes;
mod recall;
mod releases;
mod renew;
mod revoked;

const START: Instant = Instant::from_nanos(1_000_000_000);
const TTL: Duration = Duration::from_secs(10);
const IO_TIMEOUT: Duration = Duration::from_secs(1);
const ONE_TRY: Duration = Duration::ZERO;
const HOUR: Duration = Duration::from_secs(60 * 60);

fn core() -> Core {
    let limits = Limits::of_tests(IO_TIMEOUT, 100);
    Core::new(limits, 1).with_bug(None)
}

fn acquire(number: u64, wait: Duration) -> Acquire {
    Acquire {
        key: "key".into(),
        token: Token::fixed(number.into()),
        function: "test",
        site: SiteId(1),
        label: Label::other(),
        terms: Terms::new(TTL).expect("a usual ttl"),
        watchdog: None,
        wait,
        cooldown: Duration::ZERO,
        share: None,
        min_hold: None,
        replay: None,
    }
}

fn enter(core: &mut Core, number: u64, wait: Duration, now: Instant) -> TicketId {
    let id = TicketId(number);
    core.acquire(id, acquire(number, wait), now);
    id
}

/// Returns the id of the only request sent now, which must be an acquire.
#[track_caller]
fn asked(core: &mut Core, now: Instant) -> OpId {
    match &core.take_requests(now)[..] {
        [request] if matches!(request.op, Op::Take(_)) => request.id,
        other => panic!("one acquire was expected: {other:?}"),
    }
}

fn silent(core: &mut Core, now: Instant) -> bool {
    core.take_requests(now).is_empty() && core.take_signals().is_empty()
}

#[expect(clippy::unnecessary_wraps, reason = "the core takes outcomes")]
fn taken(fence: u64) -> Result<Reply, Failure> {
    Ok(Reply::Acquired {
        fence: Some(Fence::new(fence)),
        reserved_fences: 0,
        wanted: Some(false),
    })
}

#[expect(clippy::unnecessary_wraps, reason = "the core takes outcomes")]
fn held(left: Duration) -> Result<Reply, Failure> {
    Ok(Reply::Held {
        left: Some(left),
        queued: false,
        owner: None,
    })
}

fn no_script() -> Failure {
    Failure {
        error: LockError::Unavailable {
            source: StoreError::new("NOSCRIPT", "the scripts are gone"),
        },
        retry: Retry::Now,
        executed: false,
    }
}

fn is_contended(signal: &Signal, id: TicketId) -> bool {
    matches!(signal, Signal::Failed(of, LockError::Contended { .. }) if *of == id)
}

fn is_granted(signal: &Signal, id: TicketId) -> bool {
    matches!(signal, Signal::Granted { ticket, .. } if *ticket == id)
}

fn releases(requests: &[Request]) -> usize {
    let release = |request: &&Request| matches!(request.op, Op::Give(_));
    requests.iter().filter(release).count()
}

/// Fails if a release is not completed after its caller is gone.
#[test]
fn a_release_continues_without_its_caller() {
    let mut core = core();
    let id = enter(&mut core, 1, ONE_TRY, START);
    let op = asked(&mut core, START);
    core.reply(op, taken(1), START);
    core.release(id, None, START);
    assert_eq!(releases(&core.take_requests(START)), 1);
    core.abandon(id, START);
    assert!(!core.is_idle());
    let later = START + 2 * IO_TIMEOUT;
    core.tick(later);
    assert_eq!(releases(&core.take_requests(later)), 1, "unanswered");
}

/// Fails if the timers of removed tickets stay until their due time.
#[test]
fn timers_of_finished_tickets_do_not_pile_up() {
    let mut core = core();
    let mut now = START;
    let mut most = 0;
    let mut granted = 0;
    enter(&mut core, 0, HOUR, now);
    for number in 1..10_000 {
        // One call holds the lock or asks for it. The next one queues behind it and may wait for an
        // hour.
        enter(&mut core, number, HOUR, now);
        core.tick(now);
        for request in core.take_requests(now) {
            let reply = match request.op {
                Op::Take(_) => taken(number),
                Op::Leave { .. } => Ok(Reply::Left),
                _ => Ok(Reply::Released {
                    found: true,
                    ordered: true,
                }),
            };
            core.reply(request.id, reply, now);
        }
        for signal in core.take_signals() {
            if let Signal::Granted { ticket, .. } = signal {
                granted += 1;
                core.release(ticket, None, now);
            }
        }
        most = most.max(core.timers());
        now = now + Duration::from_micros(10);
    }
    assert!(granted > 9_000, "only {granted} were served");
    assert!(most < 200, "{most} timers");
}

/// Fails if a grant that arrives after the end of the waiting time is used, or is not undone.
#[test]
fn a_reply_after_the_budget_is_undone() {
    for wait in [Duration::from_millis(500), ONE_TRY] {
        let mut core = core();
        let id = enter(&mut core, 1, wait, START);
        let op = asked(&mut core, START);
        let budget = if wait.is_zero() { IO_TIMEOUT } else { wait };
        let late = START + budget + Duration::from_millis(1);
        // The core gets the late reply before the tick that would end the waiting time.
        core.reply(op, taken(1), late);
        core.tick(late);
        let signals = core.take_signals();
        assert!(
            matches!(&signals[..], [Signal::Failed(of, _)] if *of == id),
            "{signals:?}"
        );
        assert_eq!(releases(&core.take_requests(late)), 1, "the key is removed");
    }
}

/// The first call in the key's queue has asked the store again. Fails if a new call, which tries
/// only once, is refused because of the previous answer. It must wait for the next answer.
#[test]
fn a_single_try_shares_a_pending_answer() {
    for (reply, free) in [(taken(1), true), (held(TTL), false)] {
        let mut core = core();
        let head = enter(&mut core, 1, HOUR, START);
        let op = asked(&mut core, START);
        core.reply(op, held(TTL), START);
        let again = core.next_due().expect("the head looks again");
        core.tick(again);
        let op = asked(&mut core, again);

        let single = enter(&mut core, 2, ONE_TRY, again);
        assert!(silent(&mut core, again), "it waits for the head's answer");
        core.reply(op, reply, again);
        let signals = core.take_signals();
        let count = |wanted: &dyn Fn(&Signal) -> bool| signals.iter().filter(|s| wanted(s)).count();
        assert_eq!(count(&|s| is_contended(s, single)), 1, "{signals:?}");
        assert_eq!(count(&|s| is_granted(s, head)), usize::from(free));
        assert_eq!(core.take_requests(again).len(), 0, "one answer serves both");
    }
}

/// Fails if a call that tries only once asks the store although the store's last answer shows that
/// the key is held.
#[test]
fn a_single_try_on_a_known_held_key_is_refused_at_once() {
    let mut core = core();
    enter(&mut core, 1, HOUR, START);
    let op = asked(&mut core, START);
    core.reply(op, held(TTL), START);
    let soon = START + Duration::from_micros(10);
    let single = enter(&mut core, 2, ONE_TRY, soon);
    let signals = core.take_signals();
    let [Signal::Failed(of, error)] = &signals[..] else {
        panic!("{signals:?}");
    };
    assert_eq!(*of, single);
    let left = error.retry_after().expect("it is known");
    assert!(left <= TTL && left > TTL / 2, "{left:?}");
    assert!(core.take_requests(soon).is_empty());
}

/// Fails if a request is retried without a pause more than once, while the server repeatedly
/// forgets its scripts.
#[test]
fn a_forgotten_script_is_retried_immediately_only_once() {
    let mut core = core();
    let id = enter(&mut core, 1, HOUR, START);
    let op = asked(&mut core, START);
    core.reply(op, Err(no_script()), START);
    let op = asked(&mut core, START);
    core.reply(op, Err(no_script()), START);
    assert!(silent(&mut core, START), "the second retry comes later");
    let next = core.next_due().expect("it tries again");
    assert!(next.since(START) >= Duration::from_millis(5), "too soon");
    core.tick(next);
    let op = asked(&mut core, next);
    core.reply(op, taken(1), next);
    assert!(core.take_signals().iter().any(|s| is_granted(s, id)));
}

/// Two shutdowns with different limits are under way. Fails if the limit of the later shutdown
/// replaces that of the earlier one.
#[test]
fn each_shutdown_has_its_own_limit() {
    let (short, long) = (Duration::from_secs(1), Duration::from_secs(5));
    for (first, second) in [(short, long), (long, short)] {
        let mut core = core();
        enter(&mut core, 1, ONE_TRY, START);
        let op = asked(&mut core, START);
        core.reply(op, taken(1), START);
        core.take_signals();
        core.shut_down(1, first, START);
        core.shut_down(2, second, START);
        let order = if first < second { [1, 2] } else { [2, 1] };
        for (limit, expected) in [short, long].into_iter().zip(order) {
            core.tick(START + limit - Duration::from_nanos(1));
            assert!(core.take_signals().is_empty(), "before its time");
            core.tick(START + limit);
            let signals = core.take_signals();
            let [Signal::ShutDown(number, report)] = &signals[..] else {
                panic!("{signals:?}");
            };
            assert_eq!((*number, report.still_held), (expected, 1));
        }
    }
}

/// Fails if the queue of a shared lock is kept although no call waits for the lock. The core would
/// then collect a queue for each key that was ever shared.
#[test]
fn a_shared_lock_without_waiters_leaves_no_queue() {
    let mut core = core();
    let acquire = Acquire {
        share: Some(Share::Reader),
        ..acquire(1, ONE_TRY)
    };
    core.acquire(TicketId(1), acquire, START);
    let op = asked(&mut core, START);
    core.reply(op, taken(1), START);
    assert!(core.queues.is_empty() && core.tickets.len() == 1);
}

/// A connection is replaced before the first acquire is answered, and the second one is answered.
/// Fails if the first acquire, which may take the lock again later, is not reported with the grant,
/// or if its answer is not reported.
#[test]
fn an_unanswered_acquire_is_reported_with_the_grant() {
    let mut core = core();
    let id = enter(&mut core, 1, HOUR, START);
    let first = asked(&mut core, START);
    core.connected(START);
    let again = asked(&mut core, START);
    core.reply(again, taken(1), START);
    let signals = core.take_signals();
    assert_eq!(signals[0], Signal::Settled(id, false), "{signals:?}");
    assert!(is_granted(&signals[1], id), "{signals:?}");
    core.reply(first, taken(1), START);
    assert_eq!(core.take_signals(), [Signal::Settled(id, true)]);
}
