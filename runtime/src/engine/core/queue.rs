//! The calls of this process that wait for one key: first come, first served.
//!
//! The processes themselves queue at the store. A process that has the key hands it over from call
//! to call during its *tenure*, which is bounded while another process waits.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use super::fifo::Fifo;
use super::tenure::{MOST_RESERVED_FENCES, Tenure};
use super::ticket::{Acquire, TicketId};
use crate::base::clock::Instant;
use crate::error::LockError;
use crate::fence::Fence;
use crate::owner::Owner;
use crate::store::{CLAIM, FORGOTTEN, PAUSE};

/// Longest mean pause between two polls of a lock that another process holds, if the store sends no
/// message at the release. So this process may detect the release one pause too late.
const LONGEST_POLL: Duration = Duration::from_millis(50);
/// Like `LONGEST_POLL`, but for a store with a queue of processes, while the holder is a client
/// that does not use the queue. That client may take the lock again at once after its release. With
/// pauses of 50 ms a call waited for up to 5.4 s beside such a client (requirement 26 of
/// `scripts/chaos`).
const LONGEST_POLL_AMONG_QUEUES: Duration = Duration::from_millis(20);
/// First mean pause between two polls. The pause doubles with each poll, up to the longest mean
/// pause.
const FIRST_POLL: Duration = Duration::from_millis(5);
/// First mean pause after a failed request. The pause doubles with each failure, up to
/// `LONGEST_RETRY`.
const FIRST_RETRY: Duration = Duration::from_millis(20);
const LONGEST_RETRY: Duration = Duration::from_millis(160);

/// Mean pause between two polls of a lock while this process has a place in the store's queue. The
/// store sends a message when it reserves the key for this process. So the pause only matters if
/// that message is lost, or if the holder is a client that does not know the queue. Even with the
/// longest jitter, the pause is shorter than [`CLAIM`], the time for which the store reserves the
/// key for a process.
const SLOW_POLL: Duration = Duration::from_millis(500);
const _: () = assert!(SLOW_POLL.as_millis() * 3 / 2 < CLAIM.as_millis());
const _: () = assert!(CLAIM.as_millis() < FORGOTTEN.as_millis());

/// Longest unbroken use of a key by the calls of this process, at a store without a queue. After
/// this time the process leaves the key free for [`STAND_BACK`]. Only then can other processes take
/// the key.
const LONGEST_USE: Duration = Duration::from_millis(250);
/// Mean pause in which a key is left free after `LONGEST_USE`.
const STAND_BACK: Duration = Duration::from_millis(50);

/// Least number of consecutive calls after which a key makes way: it is left free for a pause, for
/// other clients. After fewer calls the key does not make way, so a call behind one long holder
/// need not wait for the pause as well. `queue.lua` counts in the same way how often processes hand
/// the key on.
pub(crate) const OFTEN: u32 = 4;

/// One key's queue. Only its head asks the store for the key. If the head requests a share, the
/// calls directly behind it that request shares ask, too.
#[derive(Debug, Default)]
pub(super) struct KeyQueue {
    /// The ticket of this process that holds the key.
    holder: Option<TicketId>,
    waiting: Fifo,
    /// Upper bound of the number of calls in `waiting` that try once: they wait for one answer
    /// only. Calls that have left may still be counted.
    single_tries: usize,
    /// Earliest time at which the head may ask the store.
    ask_at: Instant,
    /// Time until which this process cannot get the key. It is the end of another process's lease,
    /// as last reported, or of the time for which the key is left free.
    held_until: Option<Instant>,
    /// Owner of the other process's lease, if the store reported it.
    owner: Option<Arc<Owner>>,
    /// The store's last error; none after the store has answered.
    trouble: Option<Box<LockError>>,
    /// True if the store has answered any request for this key.
    answered: bool,
    /// True if a failed request has been repeated at once since the last answer.
    hurried: bool,
    /// Unbroken use of the key by this process.
    in_use: Option<Use>,
    /// Time until which the key is left free for other clients.
    free_until: Instant,
    place: Place,
    /// True if the head must not ask until fewer requests are under way.
    held_back: bool,
    tenure: Tenure,
    /// Number of polls or failures in a row. The pause before the next poll grows with this number.
    tries: u32,
}

impl KeyQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.holder.is_none() && self.waiting.is_empty()
    }

    pub(super) fn holder(&self) -> Option<TicketId> {
        self.holder
    }

    pub(super) fn is_held_by(&self, ticket: TicketId) -> bool {
        self.holder == Some(ticket)
    }

    /// Returns the waiting calls, in the order of their arrival.
    pub(super) fn waiting(&self) -> impl Iterator<Item = TicketId> {
        self.waiting.iter().copied()
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn head(&self) -> Option<TicketId> {
        self.waiting.front().copied()
    }

    /// Returns the call that asks the store next: the head, unless this process holds the key.
    pub(super) fn next_to_ask(&self) -> Option<TicketId> {
        self.head().filter(|_| self.holder.is_none())
    }

    /// Returns the time at which `ticket` may ask the store; none if another ticket asks first.
    pub(super) fn asks_at(&self, ticket: TicketId) -> Option<Instant> {
        let is_next = !self.held_back && self.next_to_ask() == Some(ticket);
        is_next.then_some(self.ask_at)
    }

    /// True if the next call may request the key from the store now.
    pub(super) fn may_ask(&self, now: Instant) -> bool {
        self.ask_at <= now && !self.held_back
    }

    /// If `waits` is true, makes the head wait until fewer requests are under way. Otherwise ends
    /// this wait.
    pub(super) fn hold_back(&mut self, waits: bool) {
        self.held_back = waits;
    }

    /// Records that a call asks the store. If `waits` is true, the store may give this process a
    /// place in its queue. Returns the number of fences that the store should reserve for the calls
    /// queued behind this call.
    pub(super) fn asked(&mut self, waits: bool) -> u32 {
        // A place from an earlier request remains until the store reports otherwise.
        self.place = if waits || self.place != Place::None {
            Place::Queued
        } else {
            Place::None
        };
        u32::try_from(self.waiting.len() - 1)
            .map_or(MOST_RESERVED_FENCES, |n| n.min(MOST_RESERVED_FENCES))
    }

    /// True if this process has a place in the store's queue, or may have one.
    pub(super) fn has_place(&self) -> bool {
        self.place != Place::None
    }

    /// Records that the store has reserved the key for this process.
    pub(super) fn called(&mut self) {
        self.place = Place::Called;
    }

    /// Records that another process begins to wait for the key.
    pub(super) fn wanted(&mut self, now: Instant) {
        self.tenure.wanted(now);
    }

    pub(super) fn owner(&self) -> Option<&Arc<Owner>> {
        self.owner.as_ref()
    }

    pub(super) fn trouble(&self) -> Option<&LockError> {
        self.trouble.as_deref()
    }

    pub(super) fn is_answered(&self) -> bool {
        self.answered
    }

    /// Returns true if a failed request may be repeated at once. True only once until the store
    /// answers.
    pub(super) fn may_hurry(&mut self) -> bool {
        !mem::replace(&mut self.hurried, true)
    }

    /// Adds a call to the queue.
    pub(super) fn push(&mut self, ticket: TicketId, acquire: &Acquire) {
        self.single_tries += usize::from(!acquire.waits());
        self.waiting.push_back(ticket);
    }

    /// Records that another process holds the key. The head polls again when the holder's lease
    /// ends or after a pause, whichever is earlier. The pause grows with each poll, or is
    /// `SLOW_POLL` if the store will send a message when the key is free. If that message came
    /// before this answer, the head asks at once.
    pub(super) fn held(
        &mut self,
        left: Option<Duration>,
        queued: bool,
        owner: Option<Arc<Owner>>,
        now: Instant,
        spread: impl FnOnce(Duration) -> Duration,
    ) {
        self.settled();
        self.owner = owner;
        self.in_use = None;
        self.held_until = left.map(|left| now + left);
        if queued && self.place == Place::None {
            self.place = Place::Queued;
        }
        let pause = spread(if queued {
            SLOW_POLL
        } else {
            let longest = if self.tenure.is_fair() {
                LONGEST_POLL_AMONG_QUEUES
            } else {
                LONGEST_POLL
            };
            self.pause(FIRST_POLL, longest)
        });
        // Adds one millisecond: the server counts in whole milliseconds, so the lease may end that
        // much later than reported.
        let expiry = left.map_or(pause, |left| left + Duration::from_millis(1));
        self.ask_at = if self.place == Place::Called {
            now
        } else {
            now + pause.min(expiry)
        };
    }

    /// Records that the store could not serve a request. The head asks again after a pause, which
    /// grows with each failure.
    pub(super) fn troubled(
        &mut self,
        error: LockError,
        now: Instant,
        spread: impl FnOnce(Duration) -> Duration,
    ) {
        self.trouble = Some(Box::new(error));
        self.held_until = None;
        self.ask_at = now + spread(self.pause(FIRST_RETRY, LONGEST_RETRY));
    }

    /// Records that the store gave `ticket` the key, or a share of it.
    pub(super) fn granted(&mut self, ticket: TicketId, shared: bool, tenure: Tenure, now: Instant) {
        self.tenure = tenure;
        self.settled();
        self.owner = None;
        self.freed(now);
        self.remove(ticket);
        self.place = Place::None;
        if !shared {
            self.holder = Some(ticket);
            self.note_use(now);
        }
    }

    /// True if the key may be handed over once more, see [`Tenure::may_go_on`].
    pub(super) fn may_hand_over(&self, most: u32, longest: Duration, now: Instant) -> bool {
        self.tenure.may_go_on(most, longest, now)
    }

    /// Ends the hand-overs, so that the holder's release is sent to the store.
    pub(super) fn hand_over_no_more(&mut self) {
        self.tenure.end();
    }

    /// Counts a call that begins to hold the key exclusively.
    fn note_use(&mut self, now: Instant) {
        let fresh = Use {
            since: now,
            calls: 0,
        };
        let known = self.in_use.get_or_insert(fresh);
        known.calls = known.calls.saturating_add(1);
    }

    /// Hands the key over from the holder to `successor`. Returns the successor's fence.
    pub(super) fn hand_over(&mut self, successor: TicketId, now: Instant) -> Option<Fence> {
        self.note_use(now);
        self.remove(successor);
        self.holder = Some(successor);
        self.tenure.next_fence()
    }

    /// Removes and returns the calls that `judge` refuses. Does not call `judge` if no call in the
    /// queue tries once.
    pub(super) fn refuse_single_tries(
        &mut self,
        judge: impl Fn(TicketId) -> Verdict,
    ) -> Vec<TicketId> {
        let (mut refused, mut single_tries) = (Vec::new(), 0);
        if self.single_tries == 0 {
            return refused;
        }
        self.waiting.retain(|ticket| {
            let verdict = judge(*ticket);
            match verdict {
                Verdict::Waits => {}
                Verdict::Tries => single_tries += 1,
                Verdict::Refused => refused.push(*ticket),
            }
            verdict != Verdict::Refused
        });
        self.single_tries = single_tries;
        refused
    }

    pub(super) fn remove(&mut self, ticket: TicketId) {
        self.waiting.remove(ticket);
    }

    /// Records that a kept result answered some calls. The next call may ask at once.
    pub(super) fn recalled(&mut self, now: Instant) {
        self.settled();
        self.freed(now);
    }

    fn settled(&mut self) {
        self.trouble = None;
        self.answered = true;
        self.hurried = false;
    }

    /// Records that no call of this process holds the key. The head may ask at once, unless the key
    /// is left free for other clients. A store without a queue does not report whether another
    /// process waits. At such a store, after long use, the head waits for `STAND_BACK`, so that a
    /// waiting process can find the key free.
    pub(super) fn vacated(
        &mut self,
        makes_way: bool,
        now: Instant,
        spread: impl FnOnce(Duration) -> Duration,
    ) {
        self.holder = None;
        self.freed(now);
        if makes_way {
            self.in_use = None;
            self.free_until = now + PAUSE;
            self.ask_at = self.free_until;
            self.held_until = Some(self.free_until);
        } else if !self.tenure.is_fair()
            && self
                .in_use
                .as_ref()
                .is_some_and(|known| LONGEST_USE <= now.since(known.since))
        {
            self.in_use = None;
            self.ask_at = now + spread(STAND_BACK);
        }
    }

    /// True if the key must be left free: `OFTEN` or more calls used it one after the other, for
    /// `after` or longer. Always false if `after` is zero, or if the store has no queue.
    pub(super) fn is_to_make_way(&self, after: Duration, now: Instant) -> bool {
        let long = |known: &Use| OFTEN <= known.calls && after <= now.since(known.since);
        self.tenure.is_fair() && !after.is_zero() && self.in_use.as_ref().is_some_and(long)
    }

    /// Records that the holder now shares the lock.
    pub(super) fn shared(&mut self) {
        self.in_use = None;
    }

    /// Lets the head ask at once, because the key is likely free. If the key is left free for other
    /// clients now, the head asks at the end of that pause.
    pub(super) fn freed(&mut self, now: Instant) {
        self.ask_at = now.max(self.free_until);
        self.held_until = None;
        self.tries = 0;
    }

    /// True if the key is left free for other clients now.
    pub(super) fn is_left_free(&self, now: Instant) -> bool {
        now < self.free_until
    }

    /// Returns the remaining time in which this process cannot get the key, if known. Another
    /// process holds the key, or the key is left free for other clients.
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

/// Unbroken use of a key by calls of this process, one after the other.
#[derive(Debug)]
struct Use {
    since: Instant,
    calls: u32,
}

/// Effect of the store's answer on a waiting call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The call waits until it has the lock or is out of time.
    Waits,
    /// The call tries once, but this answer to another request does not refuse it. For example, a
    /// lock held by readers is refused to a writer, but not to a reader.
    Tries,
    /// The call tries once, and this answer refuses it.
    Refused,
}

/// This process's place in the store's queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Place {
    #[default]
    None,
    /// This process has a place, or may have one.
    Queued,
    /// The store has reserved the key for this process. The answer to an earlier request may still
    /// report the key as held.
    Called,
}
