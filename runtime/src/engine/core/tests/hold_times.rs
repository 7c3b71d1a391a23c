//! Tests of the `retry_after` of refused calls, which the core estimates from earlier hold times.

use super::super::ticket::Watchdog;
use super::*;

/// Time for which the body of a call runs.
const WORK: Duration = Duration::from_millis(120);
const COOLDOWN: Duration = Duration::from_secs(3);
const SHORTEST: Duration = Duration::from_millis(10);
const SECOND: Duration = Duration::from_secs(1);

const CREATE: SiteId = SiteId(7);
const CANCEL: SiteId = SiteId(8);

/// Returns the parameters of a call at `site`, which tries once and has a watchdog.
fn call(site: SiteId, number: u64) -> Acquire {
    Acquire {
        site,
        label: Label::other(),
        watchdog: Some(Watchdog {
            interval: TTL / 3,
            max_hold: None,
        }),
        ..acquire(number, ONE_TRY)
    }
}

/// The core of one process, with a simulated clock and server.
struct Process {
    core: Core,
    now: Instant,
    number: u64,
}

impl Process {
    fn new() -> Self {
        Self::with_hint(None)
    }

    fn with_hint(retry_hint: Option<Duration>) -> Self {
        let limits = Limits {
            retry_hint,
            ..Limits::of_tests(IO_TIMEOUT, 1)
        };
        Self {
            core: Core::new(limits, 1).with_bug(None),
            now: START,
            number: 0,
        }
    }

    fn enter(&mut self, acquire: impl FnOnce(u64) -> Acquire) -> TicketId {
        self.number += 1;
        let id = TicketId(self.number);
        let acquire = acquire(self.number);
        self.core.acquire(id, acquire, self.now);
        id
    }

    /// Lets a call take the lock, which must be free.
    fn takes(&mut self, acquire: impl FnOnce(u64) -> Acquire) -> TicketId {
        let id = self.enter(acquire);
        let op = asked(&mut self.core, self.now);
        self.core.reply(op, taken(self.number), self.now);
        let signals = self.core.take_signals();
        assert!(signals.iter().any(|signal| is_granted(signal, id)));
        id
    }

    /// Lets the holder work for `work` and release the lock, which then stays taken for `keep`. The
    /// server confirms the release.
    fn works(&mut self, id: TicketId, work: Duration, keep: Option<Duration>) {
        self.now = self.now + work;
        self.core.release(id, keep, self.now);
        for request in self.core.take_requests(self.now) {
            let reply = Ok(Reply::Released {
                found: true,
                ordered: true,
            });
            self.core.reply(request.id, reply, self.now);
        }
        self.core.take_signals();
    }

    /// Lets a call of `site` take the lock, work for `work` and release.
    fn works_as(&mut self, site: SiteId, work: Duration) {
        let id = self.takes(|number| call(site, number));
        self.works(id, work, None);
    }

    /// Returns the `retry_after` of a call that the core refuses without a request.
    fn refused(&mut self, acquire: impl FnOnce(u64) -> Acquire) -> Option<Duration> {
        let id = self.enter(acquire);
        assert_eq!(self.core.take_requests(self.now).len(), 0, "refused here");
        self.estimate(id)
    }

    /// Returns the `retry_after` of a call that the server refuses, because another process holds
    /// the lock for `left`.
    fn refused_by_server(
        &mut self,
        acquire: impl FnOnce(u64) -> Acquire,
        left: Option<Duration>,
    ) -> Option<Duration> {
        let id = self.enter(acquire);
        let op = asked(&mut self.core, self.now);
        let reply = Ok(Reply::Held {
            left,
            queued: false,
            owner: None,
        });
        self.core.reply(op, reply, self.now);
        let estimate = self.estimate(id);
        // Moves the time past the end of the holder's lease, which is at most a ttl away. Until
        // then, the core would refuse the next call without a request.
        self.now = self.now + TTL;
        estimate
    }

    #[track_caller]
    fn estimate(&mut self, id: TicketId) -> Option<Duration> {
        match &self.core.take_signals()[..] {
            [Signal::Failed(of, error)] if *of == id && error.is_contention() => {
                error.retry_after()
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Fails if, for a lock with a watchdog, the `retry_after` of a refused call is the remaining lease
/// instead of the mean hold time.
#[test]
fn a_refused_call_gets_the_mean_hold_time() {
    let mut process = Process::new();
    process.works_as(CREATE, WORK);
    process.takes(|number| call(CREATE, number));
    let estimate = process.refused(|number| call(CREATE, number));
    assert_eq!(estimate, Some(WORK), "of a lease of {TTL:?}");
    // Now another process holds the lock.
    let mut process = Process::new();
    process.works_as(CREATE, WORK);
    let estimate = process.refused_by_server(|number| call(CREATE, number), Some(TTL));
    assert_eq!(estimate, Some(WORK), "of a lease of {TTL:?}");
}

/// Fails if `retry_after` is longer than the remaining lease.
#[test]
fn retry_after_is_at_most_the_remaining_lease() {
    let mut process = Process::new();
    process.works_as(CREATE, SECOND);
    for left in [WORK, SECOND, TTL] {
        let estimate = process.refused_by_server(|number| call(CREATE, number), Some(left));
        assert_eq!(estimate, Some(left.min(SECOND)));
    }
    // Without a reported remaining lease, `retry_after` is the mean hold time.
    let estimate = process.refused_by_server(|number| call(CREATE, number), None);
    assert_eq!(estimate, Some(SECOND));
    let id = process.takes(|number| acquire(number, ONE_TRY));
    process.now = process.now + TTL - SECOND;
    let estimate = process.refused(|number| call(CREATE, number));
    assert!(
        estimate.is_some_and(|estimate| estimate < SECOND),
        "{estimate:?}"
    );
    process.works(id, Duration::ZERO, None);
}

/// Fails if `retry_after` is shorter than its minimum.
#[test]
fn retry_after_has_a_minimum() {
    let mut process = Process::new();
    process.works_as(CREATE, Duration::from_micros(50));
    for left in [Duration::ZERO, TTL] {
        let estimate = process.refused_by_server(|number| call(CREATE, number), Some(left));
        assert_eq!(estimate, Some(SHORTEST));
    }
}

/// Fails if `retry_after` is wrong while no hold time is known. It must be the remaining lease, but
/// at most one second if the lock has a watchdog.
#[test]
fn only_a_lease_without_watchdog_gives_a_first_estimate() {
    let mut process = Process::new();
    for left in [WORK, TTL] {
        let estimate = process.refused_by_server(|number| call(CREATE, number), Some(left));
        assert_eq!(estimate, Some(left.min(SECOND)));
        let plain = |number| acquire(number, ONE_TRY);
        assert_eq!(process.refused_by_server(plain, Some(left)), Some(left));
    }
    let estimate = process.refused_by_server(|number| call(CREATE, number), None);
    assert_eq!(estimate, Some(SECOND));
    let estimate = process.refused_by_server(|number| acquire(number, ONE_TRY), None);
    assert_eq!(estimate, None, "nothing is known");
}

/// Fails if call sites share one mean, or if the mean of the refused call's site is returned
/// although the holder's site is known.
#[test]
fn the_estimate_uses_the_known_function_of_the_holder() {
    let mut process = Process::new();
    process.works_as(CREATE, WORK);
    process.works_as(CANCEL, 4 * WORK);
    let estimate = process.refused_by_server(|number| call(CANCEL, number), Some(TTL));
    assert_eq!(estimate, Some(4 * WORK));
    let holder = process.takes(|number| call(CREATE, number));
    let estimate = process.refused(|number| call(CANCEL, number));
    assert_eq!(estimate, Some(WORK));
    process.works(holder, WORK, None);
    // One answer grants the lock to the head of the queue, and so refuses the call behind it, which
    // tries once.
    let head = process.enter(|number| call(CREATE, number));
    let op = asked(&mut process.core, process.now);
    let single = process.enter(|number| call(CANCEL, number));
    let fence = process.number;
    process.core.reply(op, taken(fence), process.now);
    let signals = process.core.take_signals();
    assert!(signals.iter().any(|signal| is_granted(signal, head)));
    let estimate = signals.iter().find_map(|signal| match signal {
        Signal::Failed(of, error) if *of == single => error.retry_after(),
        _ => None,
    });
    assert_eq!(estimate, Some(WORK), "{signals:?}");
}

/// Fails if the mean does not follow the hold times, or if one hanging body distorts the mean for
/// long.
#[test]
fn the_mean_follows_the_hold_times() {
    let mut process = Process::new();
    process.works_as(CREATE, WORK);
    let estimate = |process: &mut Process| {
        let estimate = process.refused_by_server(|number| call(CREATE, number), Some(TTL));
        estimate.expect("it is known")
    };
    for _ in 0..40 {
        process.works_as(CREATE, 3 * WORK);
    }
    let slow = estimate(&mut process);
    assert!(slow > 3 * WORK * 9 / 10 && slow <= 3 * WORK, "{slow:?}");
    // A hanging body: its watchdog renews the lease for an hour.
    process.works_as(CREATE, HOUR);
    let hung = estimate(&mut process);
    assert!(hung > slow && hung <= slow + TTL / 8, "{hung:?}");
    for _ in 0..20 {
        process.works_as(CREATE, WORK);
    }
    let again = estimate(&mut process);
    assert!(again < 2 * WORK, "{again:?}");
}

/// Fails if `retry_after` does not include the `cooldown`, for which the lock stays taken after the
/// body.
#[test]
fn the_estimate_for_a_kept_lock_includes_its_hold() {
    let holding = |number| Acquire {
        cooldown: COOLDOWN,
        ..call(CREATE, number)
    };
    let mut process = Process::new();
    let estimate = process.refused_by_server(holding, Some(TTL));
    assert_eq!(
        estimate,
        Some(SECOND + COOLDOWN),
        "nothing was released yet"
    );
    let id = process.takes(holding);
    process.works(id, WORK, Some(COOLDOWN));
    process.now = process.now + COOLDOWN;
    let estimate = process.refused_by_server(holding, Some(TTL));
    assert_eq!(estimate, Some(WORK + COOLDOWN), "while the body runs");
    let estimate = process.refused_by_server(holding, Some(COOLDOWN / 2));
    assert_eq!(estimate, Some(COOLDOWN / 2), "while it is kept");

    // This call has no `cooldown`, but its release sets one, as a guard may do. So the mean hold
    // time includes it.
    let mut process = Process::new();
    let id = process.takes(|number| call(CREATE, number));
    process.works(id, WORK, Some(COOLDOWN));
    process.now = process.now + COOLDOWN;
    let estimate = process.refused_by_server(|number| call(CREATE, number), Some(TTL));
    assert_eq!(estimate, Some(WORK + COOLDOWN));
}

/// Fails if a call that finds the queue full, or runs out of time in it, gets no `retry_after`.
#[test]
fn queued_calls_get_an_estimate_too() {
    let mut process = Process::new();
    process.works_as(CREATE, WORK);
    process.takes(|number| call(CREATE, number));
    let queue = |number| Acquire {
        wait: SECOND,
        ..call(CREATE, number)
    };
    let waits = process.enter(queue);
    let estimate = process.refused(queue);
    assert_eq!(estimate, Some(WORK), "the queue is full");
    process.now = process.now + SECOND;
    process.core.tick(process.now);
    assert_eq!(process.estimate(waits), Some(WORK), "its time is up");
}

/// Fails if a refused call gets the estimate instead of the pool's fixed `retry_after`.
#[test]
fn a_hint_replaces_the_estimate() {
    let hint = Duration::from_millis(2_500);
    let mut process = Process::with_hint(Some(hint));
    let estimate = process.refused_by_server(|number| call(CREATE, number), Some(WORK));
    assert_eq!(estimate, Some(hint));
    process.works_as(CREATE, WORK);
    process.takes(|number| call(CREATE, number));
    assert_eq!(process.refused(|number| call(CREATE, number)), Some(hint));
}

/// Fails if the hold time of a lock handed over inside the process does not count.
#[test]
fn a_hand_over_adds_a_hold_time() {
    let mut process = Process::new();
    let first = process.enter(|number| call(CREATE, number));
    let op = asked(&mut process.core, process.now);
    let reply = Reply::Acquired {
        fence: Some(Fence::new(1)),
        reserved_fences: 8,
        wanted: Some(false),
    };
    process.core.reply(op, Ok(reply), process.now);
    let next = process.enter(|number| Acquire {
        wait: HOUR,
        ..call(CANCEL, number)
    });
    process.core.take_signals();
    process.now = process.now + WORK;
    process.core.release(first, None, process.now);
    let signals = process.core.take_signals();
    assert!(signals.iter().any(|signal| is_granted(signal, next)));
    assert_eq!(releases(&process.core.take_requests(process.now)), 0);
    assert_eq!(process.core.hold_times.mean(CREATE), Some(WORK));
    process.now = process.now + 2 * WORK;
    process.core.release(next, None, process.now);
    assert_eq!(process.core.hold_times.mean(CANCEL), Some(2 * WORK));
}

/// Fails if a call that gives up waiting, or that lost its lease, adds a hold time.
#[test]
fn only_releases_add_hold_times() {
    let mut process = Process::new();
    process.works_as(CREATE, WORK);
    let queue = |number| Acquire {
        wait: HOUR,
        ..call(CREATE, number)
    };
    process.takes(|number| call(CANCEL, number));
    let waits = process.enter(queue);
    process.now = process.now + TTL / 4;
    process.core.abandon(waits, process.now);
    let estimate = process.core.hold_times.mean(CREATE);
    assert_eq!(estimate, Some(WORK));

    let mut process = Process::new();
    let unrenewed = |number| Acquire {
        site: CREATE,
        ..acquire(number, ONE_TRY)
    };
    let holder = process.takes(unrenewed);
    process.now = process.now + TTL;
    process.core.tick(process.now);
    let signals = process.core.take_signals();
    assert_eq!(signals, [Signal::Lost(holder)]);
    process.core.release(holder, None, process.now);
    assert_eq!(process.core.hold_times.mean(CREATE), None);
}
