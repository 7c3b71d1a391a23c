//! What the store says: how much of it is taken at a time, and what follows from it.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tokio::task::unconstrained;

use super::super::core::Load;
use super::super::lookout;
use super::{LIMIT, Machine};
use crate::clock::Instant;
use crate::store::{Attention, StoreEvent};

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
        let unseen = self.attention == Attention::Runtime;
        if unseen {
            // What has come since the runtime looked, as well: this thread may have waited for a processor.
            self.store.attend(Attention::Both);
        }
        uncounted(|| self.poll_until(usize::MAX));
        if unseen {
            self.store.attend(self.attention);
        }
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
        events.shrink_to(LIMIT);
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

/// Does it where tokio does not count how often it is polled: a task that has no polls left is told that nothing has come, until it has given its
/// thread up for once.
pub(super) fn uncounted<T: Default>(act: impl FnOnce() -> T) -> T {
    let polled = pin!(unconstrained(async { act() }));
    match polled.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => T::default(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::Ordering;
    use std::task::Waker;
    use std::time::Duration;

    use super::super::super::fixtures::{LONG, Remote, asks, asks_for, machine_on, order};
    use super::super::super::inbox::Inbox;
    use super::super::super::slot::Slot;
    use super::super::super::ticket::{Order, Watchdog};
    use super::*;

    const MICRO: Duration = Duration::from_micros(1);
    const INTERVAL: Duration = Duration::from_secs(20);

    /// Somebody holds a lock of `store` that is renewed after [`INTERVAL`], and nothing is answered any more.
    fn holding(store: Remote) -> (Machine, Inbox, Arc<Slot>) {
        let answers = Arc::clone(&store.answers);
        let (mut machine, inbox) = (machine_on(store), Inbox::default());
        let watchdog = Watchdog {
            interval: INTERVAL,
            max_hold: None,
        };
        let renewed = Order {
            watchdog: Some(watchdog),
            ..order("renewed")
        };
        let (command, lease) = asks_for(0, renewed);
        assert!(inbox.put(command));
        answers.store(true, Ordering::SeqCst);
        while !lease.is_live() {
            machine.turn(&inbox, false, Waker::noop());
        }
        answers.store(false, Ordering::SeqCst);
        (machine, inbox, lease)
    }

    /// When it is given up unless it has been renewed: the time in which a body is told is a twentieth.
    fn given_up_in(lease: &Slot) -> Duration {
        lease.remaining().saturating_sub(LONG / 20)
    }

    /// Waits until that lease has been renewed, unless it is given up.
    async fn renewed(machine: &mut Machine, inbox: &Inbox, lease: &Slot) {
        let before = lease.deadline();
        while lease.deadline() <= before {
            machine.turn(inbox, true, Waker::noop());
            assert!(lease.is_live(), "it has been renewed");
            tokio::task::yield_now().await;
        }
    }

    /// Fails if a lease counts as lost whose renewal has been answered, because it ended while earlier answers were taken.
    #[tokio::test(start_paused = true)]
    async fn what_becomes_due_while_answers_are_taken_is_for_the_next_turn() {
        let store = Remote {
            takes: MICRO,
            ..Remote::new()
        };
        let answers = Arc::clone(&store.answers);
        let (mut machine, inbox, lease) = holding(store);
        let many = 2 * LIMIT as u64;
        let _many: Vec<_> = (1..=many).map(|number| asks(&inbox, number)).collect();
        for pause in [Duration::ZERO, INTERVAL] {
            tokio::time::advance(pause).await;
            machine.turn(&inbox, true, Waker::noop());
        }
        tokio::time::advance(given_up_in(&lease).saturating_sub(10 * MICRO)).await;
        machine.turn(&inbox, true, Waker::noop());
        answers.store(true, Ordering::SeqCst);
        renewed(&mut machine, &inbox, &lease).await;
    }

    /// Fails if a lease counts as lost whose renewal has been answered, because the runtime has not looked for it since.
    #[tokio::test(start_paused = true)]
    async fn what_has_come_since_the_runtime_looked_is_heard_before_a_lease_is_given_up() {
        let store = Remote::new();
        let (answers, unseen) = (Arc::clone(&store.answers), Arc::clone(&store.unseen));
        let (mut machine, inbox, lease) = holding(store);
        tokio::time::advance(INTERVAL).await;
        machine.turn(&inbox, true, Waker::noop());
        unseen.store(true, Ordering::SeqCst);
        answers.store(true, Ordering::SeqCst);
        tokio::time::advance(given_up_in(&lease)).await;
        renewed(&mut machine, &inbox, &lease).await;
    }
}
