//! Waiting for a quick answer without going to sleep.
//!
//! To wake a thread takes longer than a server nearby takes to answer. With the engine's thread asleep meanwhile, a lone acquire and
//! release on one machine took 1.43 times as long as by hand (249 against 174 µs, `scripts/bench --rows uncontended --rounds 3`). So for a request
//! that is alone, of a server that has been quick lately, whoever sent it looks for the answer for a moment before it sleeps: the caller's task, which
//! comes back until then and leaves its thread and its processor to others in between, or the engine's thread. That costs at most [`LONGEST`] of a
//! thread's time a request, and what those others take.

use std::time::Duration;

use super::quickness::Quickness;
use crate::clock::Instant;

/// The longest wait, and the longest round trip that counts as quick: a server on this machine, not one across a network.
const LONGEST: Duration = Duration::from_micros(150);

/// When whoever waits for an answer stays awake.
#[derive(Debug)]
pub(super) struct Spin {
    allowed: bool,
    /// When the request left that is alone.
    asked: Option<Instant>,
    server: Quickness,
}

impl Spin {
    /// Not allowed, it never stays awake.
    pub(super) fn new(allowed: bool) -> Self {
        Self {
            allowed,
            asked: None,
            server: Quickness::new(LONGEST),
        }
    }

    /// A request has left, and nothing else is under way.
    pub(super) fn asked(&mut self, now: Instant) {
        self.asked = Some(now);
        if self.is_quick() {
            self.server.tried();
        } else {
            self.server.occasion();
        }
    }

    /// An answer came.
    pub(super) fn answered(&mut self, now: Instant) {
        if let Some(asked) = self.asked.take() {
            self.server.learn(now.since(asked));
        }
    }

    /// Whether the answer is likely to come in a moment.
    pub(super) fn goes_on(&self, now: Instant) -> bool {
        self.until().is_some_and(|until| now < until)
    }

    /// Until when it is worth while to look for the answer.
    pub(super) fn until(&self) -> Option<Instant> {
        let asked = self.asked.filter(|_| self.is_quick())?;
        Some(asked + LONGEST.min(2 * self.server.usual()))
    }

    /// Whether it is worth while for a lone request.
    pub(super) fn is_quick(&self) -> bool {
        self.allowed && self.server.is_worthwhile()
    }
}

#[cfg(test)]
mod tests {
    use super::super::quickness::SELDOM;
    use super::*;

    const MICRO: Duration = Duration::from_micros(1);

    fn after(spin: &mut Spin, took: Duration) {
        let start = Instant::from_nanos(1);
        spin.asked(start);
        spin.answered(start + took);
    }

    #[test]
    fn it_is_for_servers_that_are_quick_and_ends_soon() {
        let mut spin = Spin::new(true);
        after(&mut spin, 30 * MICRO);
        let start = Instant::from_nanos(1);
        assert!(!spin.goes_on(start), "nothing is asked");
        spin.asked(start);
        assert!(spin.goes_on(start + 59 * MICRO));
        assert!(!spin.goes_on(start + 60 * MICRO));

        for _ in 0..10 {
            after(&mut spin, 350 * MICRO);
        }
        assert!(!spin.is_quick(), "a network");
        let tried = (0..10 * SELDOM).filter(|_| {
            after(&mut spin, 350 * MICRO);
            spin.is_quick()
        });
        assert!((8..=10).contains(&tried.count()), "now and then");
        after(&mut spin, 90 * MICRO);
        assert!(
            spin.is_quick(),
            "one quick answer shows what the server can"
        );
    }

    #[test]
    fn one_pause_does_not_end_it_for_long() {
        let mut spin = Spin::new(true);
        after(&mut spin, 30 * MICRO);
        after(&mut spin, Duration::from_secs(5));
        assert!(spin.is_quick());
    }

    #[test]
    fn where_it_is_not_allowed_it_never_is() {
        let mut spin = Spin::new(false);
        after(&mut spin, MICRO);
        spin.asked(Instant::from_nanos(1));
        assert!(!spin.is_quick() && !spin.goes_on(Instant::from_nanos(2)));
    }
}
