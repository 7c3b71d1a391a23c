//! The calls of this process that want one key: first come, first served.

use std::collections::VecDeque;
use std::time::Duration;

use super::ticket::TicketId;
use crate::LockError;
use crate::clock::Instant;

/// The longest pause between two looks at a lock that another process holds. A holder may release at
/// any time and cannot tell us, so this is also how stale we may be.
const LONGEST_POLL: Duration = Duration::from_millis(250);
const FIRST_POLL: Duration = Duration::from_millis(5);
const FIRST_RETRY: Duration = Duration::from_millis(20);

/// One key's queue. Only its head asks the store.
#[derive(Debug)]
pub(super) struct KeyQueue {
    /// The ticket of this process that holds the key.
    pub(super) holder: Option<TicketId>,
    pub(super) waiting: VecDeque<TicketId>,
    /// When the head may ask.
    pub(super) ask_at: Instant,
    /// Until when another process's lease runs, as it told us last.
    held_until: Option<Instant>,
    /// What the store said last, if it could not serve.
    pub(super) trouble: Option<LockError>,
    /// Looks or failures in a row; the pause between them grows with it.
    tries: u32,
}

impl KeyQueue {
    pub(super) fn new() -> Self {
        Self {
            holder: None,
            waiting: VecDeque::new(),
            ask_at: Instant::ZERO,
            held_until: None,
            trouble: None,
            tries: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.holder.is_none() && self.waiting.is_empty()
    }

    /// Somebody else holds the key: look again after a growing pause, and when its lease ends.
    pub(super) fn held(
        &mut self,
        left: Option<Duration>,
        now: Instant,
        spread: impl FnOnce(Duration) -> Duration,
    ) {
        self.trouble = None;
        self.held_until = left.map(|left| now + left);
        let pause = spread(self.pause(FIRST_POLL));
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
        self.ask_at = now + spread(self.pause(FIRST_RETRY));
    }

    /// The key is likely free: the next in the queue may ask at once.
    pub(super) fn freed(&mut self, now: Instant) {
        self.ask_at = now;
        self.held_until = None;
        self.tries = 0;
    }

    /// How long the key is known to be held by another process.
    pub(super) fn held_for(&self, now: Instant) -> Option<Duration> {
        let left = self.held_until?.since(now);
        (!left.is_zero()).then_some(left)
    }

    /// Whether the store has said nothing yet about this key.
    pub(super) fn never_answered(&self) -> bool {
        self.holder.is_none() && self.tries == 0
    }

    fn pause(&mut self, first: Duration) -> Duration {
        let pause = first.saturating_mul(1 << self.tries.min(10));
        self.tries += 1;
        pause.min(LONGEST_POLL * 2 / 3)
    }
}
