//! Tests that a key in constant use is left free for other clients at regular intervals.

use std::time::Duration;

use super::{HOUR, IO_TIMEOUT, ONE_TRY, START, asked, enter, held, silent};
use crate::base::clock::Instant;
use crate::engine::core::Core;
use crate::engine::core::queue::OFTEN;
use crate::engine::core::signal::{Limits, Signal};
use crate::engine::core::ticket::TicketId;
use crate::error::LockError;
use crate::fence::Fence;
use crate::store::{Failure, Op, OpId, PAUSE, Reply};

const AFTER: Duration = Duration::from_secs(1);
/// Time for which each call holds the lock.
const STAY: Duration = Duration::from_millis(50);

fn core(make_way_after: Duration) -> Core {
    let limits = Limits {
        make_way_after,
        ..Limits::of_tests(IO_TIMEOUT, 1_000)
    };
    Core::new(limits, 1).with_bug(None)
}

#[expect(clippy::unnecessary_wraps, reason = "the core takes outcomes")]
fn taken(number: u64) -> Result<Reply, Failure> {
    Ok(Reply::Acquired {
        fence: Some(Fence::new(1_000 * number)),
        reserved_fences: 4,
        wanted: Some(false),
    })
}

/// A process with calls that follow each other without a pause. The store grants each acquire.
struct Process {
    core: Core,
    now: Instant,
    last: u64,
    holder: Option<TicketId>,
    stay: Duration,
}

impl Process {
    fn new(make_way_after: Duration) -> Self {
        let mut process = Self {
            core: core(make_way_after),
            now: START,
            last: 0,
            holder: None,
            stay: STAY,
        };
        for _ in 0..4 {
            process.come();
        }
        let op = asked(&mut process.core, START);
        process.given(op);
        process
    }

    fn come(&mut self) -> TicketId {
        self.last += 1;
        enter(&mut self.core, self.last, HOUR, self.now)
    }

    fn given(&mut self, op: OpId) {
        self.core.reply(op, taken(self.last), self.now);
        self.look();
    }

    /// Records which ticket holds the lock now.
    fn look(&mut self) {
        for signal in self.core.take_signals() {
            if let Signal::Granted { ticket, .. } = signal {
                self.holder = Some(ticket);
            }
        }
    }

    /// Lets calls follow each other until the core leaves the key free. Returns the time for which
    /// the calls had the key; none if the core has not left it free after 1,000 calls.
    fn until_it_makes_way(&mut self) -> Option<Duration> {
        let since = self.now;
        for _ in 0..1_000 {
            self.now = self.now + self.stay;
            self.come();
            let holder = self.holder.take().expect("it is held");
            self.core.release(holder, None, self.now);
            self.look();
            let mut made_way = false;
            for request in self.core.take_requests(self.now) {
                match request.op {
                    Op::Give(give) => {
                        made_way = give.makes_way;
                        let ordered = true;
                        let found = true;
                        let released = Ok(Reply::Released { found, ordered });
                        self.core.reply(request.id, released, self.now);
                    }
                    Op::Take(_) => self.given(request.id),
                    other => panic!("{other:?}"),
                }
            }
            self.look();
            if self.holder.is_none() {
                assert!(made_way, "the store is not notified");
                return Some(self.now.since(since));
            }
        }
        None
    }

    /// Moves the time to the next acquire.
    fn asks_later(&mut self) -> OpId {
        loop {
            self.now = self.core.next_due().expect("it goes on").max(self.now);
            self.core.tick(self.now);
            if self.core.has_requests() {
                return asked(&mut self.core, self.now);
            }
        }
    }

    /// Checks that the next acquire is sent exactly at the end of the pause that begins now.
    fn goes_on(&mut self) -> OpId {
        let begun = self.now;
        let op = self.asks_later();
        assert_eq!(self.now.since(begun), PAUSE);
        op
    }
}

/// Calls of one process use a key without a break. Fails if the process does not leave the key free
/// after exactly [`AFTER`], each time.
#[test]
fn the_key_is_left_free_periodically() {
    let mut process = Process::new(AFTER);
    for _ in 0..3 {
        assert_eq!(process.until_it_makes_way(), Some(AFTER));
        let op = process.goes_on();
        process.given(op);
    }
    // Another client takes the key in the pause.
    assert_eq!(process.until_it_makes_way(), Some(AFTER));
    let op = process.goes_on();
    process.core.reply(op, held(STAY), process.now);
    let op = process.asks_later();
    process.given(op);
    assert_eq!(process.until_it_makes_way(), Some(AFTER));
}

/// Each call holds the key for longer than [`AFTER`]. Fails if the key is left free after fewer
/// than `OFTEN` of these calls, or is not left free after `OFTEN` of them.
#[test]
fn long_sections_make_way_after_several_of_them() {
    let mut process = Process::new(AFTER);
    process.stay = 2 * AFTER;
    for _ in 0..2 {
        assert_eq!(process.until_it_makes_way(), Some(OFTEN * 2 * AFTER));
        let op = process.goes_on();
        process.given(op);
    }
}

/// Fails if the key is left free although `make_way_after` is zero.
#[test]
fn zero_disables_making_way() {
    assert_eq!(Process::new(Duration::ZERO).until_it_makes_way(), None);
}

/// Fails if a call requests the key in the pause during which the key is left free for other
/// clients. Also fails if a refused single try does not get the rest of the pause as `retry_after`.
#[test]
fn no_call_of_this_process_takes_the_key_in_a_pause() {
    let mut process = Process::new(AFTER);
    process.until_it_makes_way().expect("it makes way");
    let begun = process.now;
    process.now = begun + PAUSE / 2;
    process.come();
    assert!(silent(&mut process.core, process.now));
    let single = enter(&mut process.core, 10_000, ONE_TRY, process.now);
    match &process.core.take_signals()[..] {
        [Signal::Failed(of, LockError::Contended { retry_after, .. })] if *of == single => {
            assert_eq!(*retry_after, Some(PAUSE / 2));
        }
        other => panic!("{other:?}"),
    }
    process.core.connected(process.now);
    process.core.called(&"key".into(), process.now);
    assert!(
        silent(&mut process.core, process.now),
        "the key is for other clients"
    );
    process.now = begun;
    process.goes_on();
}

/// The key has been in use for long enough to make way. Fails if a release that must keep the key
/// taken for a while also asks the store to leave the key free.
#[test]
fn a_kept_lock_does_not_count_as_making_way() {
    let mut process = Process::new(AFTER);
    let (first, keep) = (process.holder.take().expect("it is held"), 5 * STAY);
    process.core.release(first, None, START);
    process.look();
    let second = process.holder.take().expect("it is handed over");
    let now = START + 2 * AFTER;
    process.core.release(second, Some(keep), now);
    let requests = process.core.take_requests(now);
    let kept = |op: &Op| matches!(op, Op::Give(give) if give.keep.is_some() && !give.makes_way);
    assert!(
        requests.iter().any(|request| kept(&request.op)),
        "{requests:?}"
    );
}
