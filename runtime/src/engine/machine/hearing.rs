//! What the store says: how much of it is taken at a time, and what follows from it.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tokio::task::unconstrained;

use super::super::core::Load;
use super::super::lookout;
use super::{LIMIT, Machine};
use crate::clock::Instant;
use crate::store::StoreEvent;

impl Machine {
    /// Whether there is something that the store has said and nobody has heard.
    pub(in crate::engine) fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Whether the engine's task is not to leave answers lying: a lease or a call has something due, or nobody has looked since somebody
    /// was chosen for it in place of one that was away. To be away for once, other threads having the processors, is usual.
    pub(super) fn hears_all(&mut self, now: Instant) -> bool {
        let is_away = |(_, until)| lookout::away_at(until) <= now;
        let away = self.asker().is_some_and(is_away);
        self.was_away &= self.asker.is_some();
        let again = away && std::mem::replace(&mut self.was_away, away);
        again || self.core.next_due().is_some_and(|due| due <= now)
    }

    /// Takes all that the store has to say; whether it has said anything.
    pub(super) fn poll_all(&mut self) -> bool {
        uncounted(|| self.poll_until(usize::MAX));
        self.left_lying = false;
        self.has_events()
    }

    /// The same, but not more than is to be told together.
    pub(super) fn poll_store(&mut self) -> bool {
        let Load { unsent, sent } = self.core.load();
        let most = self.lookout.most(unsent + sent);
        self.poll_until(most.unwrap_or(LIMIT));
        self.left_lying = most.is_some_and(|most| most <= self.events.len());
        self.has_events()
    }

    /// Polls the store, at least once, until there are so many events or it has none.
    pub(super) fn poll_until(&mut self, events: usize) {
        while let Some(event) = self.poll_once() {
            self.events.push(event);
            if events <= self.events.len() {
                break;
            }
        }
    }

    /// The next thing that the store has to say.
    pub(super) fn poll_once(&mut self) -> Option<StoreEvent> {
        let cx = &mut Context::from_waker(&self.waker);
        match self.store.poll_event(cx) {
            Poll::Ready(event) => Some(event),
            Poll::Pending => None,
        }
    }

    /// Hears what has been taken, at `now`.
    pub(super) fn replies(&mut self, now: Instant) {
        let mut events = std::mem::take(&mut self.events);
        for event in events.drain(..) {
            self.hear(event, now);
        }
        self.events = events;
    }

    /// What follows from it for the core.
    pub(super) fn hear(&mut self, event: StoreEvent, now: Instant) {
        match event {
            StoreEvent::Reply(op, result) => {
                self.spin.answered(now);
                self.lookout.hears(now);
                self.core.reply(op, result, now);
            }
            StoreEvent::Connected => self.core.connected(now),
            StoreEvent::Turn(key) => self.core.called(&key, now),
            StoreEvent::Wanted(key) => self.core.key_wanted(&key, now),
        }
    }
}

/// Does it where tokio does not count how often it is polled: a task that has no polls left is told, for ever or until it has rested, that
/// nothing has come.
pub(super) fn uncounted<T: Default>(act: impl FnOnce() -> T) -> T {
    let polled = pin!(unconstrained(async { act() }));
    match polled.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => T::default(),
    }
}
