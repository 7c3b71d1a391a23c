//! The calls of this process that want one key: first come, first served.
//!
//! Between processes, the processes queue at the store. A process that has the key passes it on from call to call for a
//! *turn*, which is bounded while others wait.

use std::time::Duration;

use super::fifo::Fifo;
use super::ticket::{Acquire, TicketId};
use crate::base::clock::Instant;
use crate::error::LockError;
use crate::fence::Fence;
use crate::store::{CLAIM, FORGOTTEN, PAUSE};

/// The longest mean pause between two looks at a lock that another process holds. A holder may release at any time and
/// cannot tell us, so this is also how stale we may be.
const LONGEST_POLL: Duration = Duration::from_millis(50);
/// The same where processes queue. The holder is a client that knows no queue, and may take the
/// lock again at once. With 50 ms a call waited for up to 5.4 s beside such a client (requirement
/// 26 of `scripts/chaos`).
const LONGEST_POLL_AMONG_QUEUES: Duration = Duration::from_millis(20);
const FIRST_POLL: Duration = Duration::from_millis(5);
const FIRST_RETRY: Duration = Duration::from_millis(20);
const LONGEST_RETRY: Duration = Duration::from_millis(160);

/// The mean pause between two looks at a lock for which this process has a place in the store's queue. It is told when its
/// turn comes, so this is what a lost message costs, and how soon the release by a client that knows no queue is seen. With its
/// spread it is shorter than the time for which a key that was handed over waits to be confirmed.
const SLOW_POLL: Duration = Duration::from_millis(500);
const _: () = assert!(SLOW_POLL.as_millis() * 3 / 2 < CLAIM.as_millis());
const _: () = assert!(CLAIM.as_millis() < FORGOTTEN.as_millis());

/// At a store without a queue: after passing the key from call to call of this process for so long, the process stands back for
/// a pause in which others see the key free.
const LONGEST_TURN: Duration = Duration::from_millis(250);
const STAND_BACK: Duration = Duration::from_millis(50);

/// So many fences are kept for calls to which the key may be passed on.
pub(super) const MOST_RESERVED_FENCES: u32 = 64;

/// One key's queue. Only its head asks the store.
#[derive(Debug)]
pub(super) struct KeyQueue {
    /// The ticket of this process that holds the key.
    pub(super) holder: Option<TicketId>,
    pub(super) waiting: Fifo,
    /// How many of them at most try once; some may have gone.
    pub(super) single_tries: usize,
    /// When the head may ask.
    pub(super) ask_at: Instant,
    /// Until when another process's lease runs, as it told us last.
    held_until: Option<Instant>,
    /// What the store said last, if it could not serve.
    pub(super) trouble: Option<LockError>,
    /// Whether the store has ever answered for this key.
    pub(super) answered: bool,
    /// Whether a failure has been retried at once since the last answer.
    pub(super) hurried: bool,
    /// Since when this process has had the key without a break.
    turn: Option<Instant>,
    /// Until when it is left free for other clients.
    free_until: Instant,
    pub(super) place: Place,
    /// Whether asking waits until less is under way.
    pub(super) held_back: bool,
    /// What is left of the present turn.
    pub(super) tenure: Tenure,
    /// Looks or failures in a row; the pause between them grows with it.
    tries: u32,
}

impl KeyQueue {
    pub(super) fn new() -> Self {
        Self {
            holder: None,
            waiting: Fifo::default(),
            single_tries: 0,
            ask_at: Instant::ZERO,
            held_until: None,
            trouble: None,
            answered: false,
            hurried: false,
            turn: None,
            free_until: Instant::ZERO,
            place: Place::None,
            held_back: false,
            tenure: Tenure::default(),
            tries: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.holder.is_none() && self.waiting.is_empty()
    }

    /// A call joins the queue.
    pub(super) fn push(&mut self, ticket: TicketId, acquire: &Acquire) {
        self.single_tries += usize::from(!acquire.waits());
        self.waiting.push_back(ticket);
    }

    /// Somebody else holds the key: look again when its lease ends, and before, after a growing pause or, if we are going to
    /// be told, a long one.
    pub(super) fn held(
        &mut self,
        left: Option<Duration>,
        queued: bool,
        now: Instant,
        spread: impl FnOnce(Duration) -> Duration,
    ) {
        self.settled();
        self.turn = None;
        self.held_until = left.map(|left| now + left);
        if queued && self.place == Place::None {
            self.place = Place::Queued;
        }
        let pause = spread(if queued {
            SLOW_POLL
        } else {
            let longest = if self.tenure.fair {
                LONGEST_POLL_AMONG_QUEUES
            } else {
                LONGEST_POLL
            };
            self.pause(FIRST_POLL, longest)
        });
        // The server's ttl counts whole milliseconds, so one more.
        let expiry = left.map_or(pause, |left| left + Duration::from_millis(1));
        self.ask_at = now + pause.min(expiry);
    }

    /// The store could not serve: ask again after a growing pause.
    pub(super) fn troubled(
        &mut self,
        error: LockError,
        now: Instant,
        spread: impl FnOnce(Duration) -> Duration,
    ) {
        self.trouble = Some(error);
        self.held_until = None;
        self.ask_at = now + spread(self.pause(FIRST_RETRY, LONGEST_RETRY));
    }

    /// `ticket` has the key, or a share of it.
    pub(super) fn granted(&mut self, ticket: TicketId, shared: bool, now: Instant) {
        self.settled();
        self.freed(now);
        self.remove(ticket);
        self.place = Place::None;
        if !shared {
            self.holder = Some(ticket);
            self.turn.get_or_insert(now);
        }
    }

    /// Takes `ticket` out of the queue, which it is in.
    pub(super) fn remove(&mut self, ticket: TicketId) {
        self.waiting.remove(ticket);
    }

    fn settled(&mut self) {
        self.trouble = None;
        self.answered = true;
        self.hurried = false;
    }

    /// The holder is gone: the next in the queue may ask at once, unless it is another process's turn. There is no telling
    /// whether one waits, and one that does finds the key free only while we stand back.
    pub(super) fn vacated(
        &mut self,
        makes_way: bool,
        now: Instant,
        spread: impl FnOnce(Duration) -> Duration,
    ) {
        self.holder = None;
        self.freed(now);
        if makes_way {
            self.turn = None;
            self.free_until = now + PAUSE;
            self.ask_at = self.free_until;
            self.held_until = Some(self.free_until);
        } else if !self.tenure.fair
            && self
                .turn
                .is_some_and(|turn| LONGEST_TURN <= now.since(turn))
        {
            self.turn = None;
            self.ask_at = now + spread(STAND_BACK);
        }
    }

    /// Whether the key has been in use so long that it is to be left free, at a store with a queue.
    pub(super) fn is_to_make_way(&self, after: Duration, now: Instant) -> bool {
        let long = |turn| after <= now.since(turn);
        self.tenure.fair && !after.is_zero() && self.turn.is_some_and(long)
    }

    /// The holder shares the lock from now on.
    pub(super) fn shared(&mut self) {
        self.turn = None;
    }

    /// The key is likely free: the next in the queue may ask at once, unless that is for other
    /// clients.
    pub(super) fn freed(&mut self, now: Instant) {
        self.ask_at = now.max(self.free_until);
        self.held_until = None;
        self.tries = 0;
    }

    /// How long the key is known to be held by another process.
    pub(super) fn held_for(&self, now: Instant) -> Option<Duration> {
        let left = self.held_until?.since(now);
        (!left.is_zero()).then_some(left)
    }

    fn pause(&mut self, first: Duration, longest: Duration) -> Duration {
        let pause = first.saturating_mul(1 << self.tries.min(10));
        self.tries += 1;
        pause.min(longest)
    }
}

/// This process's place in the store's queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    None,
    /// It has one, or may have.
    Queued,
    /// The store has said that its turn has come, perhaps while a question was on its way.
    Called,
}

/// What a process may still pass on of the turn that it has.
#[derive(Debug, Default)]
pub(super) struct Tenure {
    /// Whether the store has a queue, so that whoever waits is served after us.
    pub(super) fair: bool,
    /// How often the key has been passed on since another process was known to wait.
    pub(super) passed: u32,
    /// Since when.
    pub(super) wanted: Option<Instant>,
    /// The fences that are left.
    reserved_fences: u32,
    fence: Option<Fence>,
}

impl Tenure {
    /// A turn begins.
    pub(super) fn begin(
        fence: Option<Fence>,
        reserved_fences: u32,
        wanted: Option<bool>,
        now: Instant,
    ) -> Self {
        Self {
            fair: wanted.is_some(),
            passed: 0,
            wanted: wanted.unwrap_or_default().then_some(now),
            reserved_fences,
            fence,
        }
    }

    /// Another process waits from now on.
    pub(super) fn wanted(&mut self, now: Instant) {
        if self.wanted.is_none() {
            self.wanted = Some(now);
            self.passed = 0;
        }
    }

    /// Whether the turn goes on: as long as nobody else waits, and for so many calls and so long after that.
    pub(super) fn may_go_on(&self, most: u32, longest: Duration, now: Instant) -> bool {
        0 < self.reserved_fences
            && self
                .wanted
                .is_none_or(|wanted| self.passed < most && now.since(wanted) < longest)
    }

    /// The fence for the next call; greater than all before.
    pub(super) fn next_fence(&mut self) -> Option<Fence> {
        self.passed += 1;
        self.reserved_fences = self.reserved_fences.saturating_sub(1);
        self.fence = self.fence.map(Fence::next);
        self.fence
    }
}
