//! Who works the machine, and when.
//!
//! A pool's engine has a task of its own, on a thread of its own, which waits for the store and for the time. But a caller that
//! finds the machine at rest takes up its command itself: a lock that is passed on inside the process, or kept by a store in the
//! process, then costs no wake-up of a thread. A caller with a command never waits for the machine: whoever has it looks for further
//! commands after giving it up. One that is to look for answers tries for a moment, and then rests until that one is done. While a caller looks for the answers to all the engine's task rests, but for what is due.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use super::core::Limits;
use super::home::Home;
use super::inbox::Command;
use super::lookout;
use super::machine::Machine;
use super::shared::{Shared, stopped, tell};
use super::ticket::TicketId;
use super::timer::Timer;
use crate::LockError;
use crate::clock::Clock;
use crate::store::LockStore;

/// Where several servers are to answer, for so long a caller looks for it in one go. To let others have the thread between two looks wakes
/// one of the runtime's other threads each time, which takes a processor that the servers need.
const STRETCH: Duration = Duration::from_micros(80);

/// After so many calls of the pool that were answered before their callers had to wait, one lets the other tasks of its runtime go first. They
/// never would otherwise: on a store in the process, within a [`STRETCH`], and where the server answers while its caller still writes.
const GIVES_WAY: u32 = 64;

/// A pool's end of the engine. The engine ends when this is gone and nothing is left to do.
pub(crate) struct Engine {
    shared: Arc<Shared>,
    clock: Clock,
    last_ticket: AtomicU64,
    /// How many were answered at once since somebody has given way.
    at_once: AtomicU32,
    /// After how many somebody does: after fewer than [`GIVES_WAY`] where others have asked meanwhile. What they ask leaves together, which is
    /// less work for the server than one caller's requests, one by one.
    gives_way: AtomicU32,
    /// Whether it is [`GIVES_WAY`] in any case: nothing leaves a store in the process together, and where several servers are asked they need the
    /// processor that each thread takes which is woken for it.
    steady: bool,
    /// See [`LockStore::asks_several`].
    asks_several: bool,
}

impl Engine {
    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    /// Whether nothing is taken up any more.
    pub(crate) fn has_stopped(&self) -> bool {
        self.shared.inbox.has_stopped()
    }

    pub(crate) fn next_ticket(&self) -> TicketId {
        TicketId(self.last_ticket.fetch_add(1, Ordering::Relaxed))
    }

    /// Whether the caller who asks now is to let other tasks go first; to be told [afterwards](Self::gave_way).
    pub(crate) fn gives_way(&self) -> Option<TicketId> {
        let due = self.gives_way.load(Ordering::Relaxed) <= self.at_once.load(Ordering::Relaxed);
        due.then(|| {
            self.at_once.store(0, Ordering::Relaxed);
            TicketId(self.last_ticket.load(Ordering::Relaxed))
        })
    }

    /// A caller has let others go first, since `next` was the next ticket.
    pub(crate) fn gave_way(&self, next: TicketId) {
        if self.steady {
            return;
        }
        let alone = self.last_ticket.load(Ordering::Relaxed) == next.0;
        let calls = self.gives_way.load(Ordering::Relaxed);
        let calls = if alone { 2 * calls } else { calls / 4 };
        self.gives_way
            .store(calls.clamp(1, GIVES_WAY), Ordering::Relaxed);
    }

    /// A caller was answered before it had to wait.
    pub(crate) fn answered_at_once(&self) {
        self.at_once.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn send(&self, command: Command) -> Result<(), LockError> {
        if self.shared.send(command) {
            Ok(())
        } else {
            Err(stopped())
        }
    }

    /// For how long the caller that looks for answers does so in one go.
    pub(crate) fn stretch(&self) -> Option<Duration> {
        self.asks_several.then_some(STRETCH)
    }

    /// Looks for answers, if the caller of `ticket` is the one who does; whether it may rest until it is woken.
    pub(crate) fn look(&self, ticket: TicketId, cx: &Context<'_>) -> bool {
        self.shared.asker() == Some(ticket) && self.shared.look(ticket, cx)
    }

    /// Whether the caller of `ticket` is to look again in a moment. Told without the machine, which somebody may have for long.
    pub(crate) fn is_asker(&self, ticket: TicketId) -> bool {
        self.shared.is_asker(ticket)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // Stopped already: fine.
        let _ = self.send(Command::Close);
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}

/// The engine's own task.
pub(crate) struct Driver {
    shared: Arc<Shared>,
    timer: Timer,
}

impl Driver {
    /// `spins`: whether the thread may stay awake for an answer that is near.
    pub(crate) fn new(
        store: Box<dyn LockStore>,
        limits: Limits,
        clock: Clock,
        spins: bool,
    ) -> (Self, Engine) {
        let home = Arc::new(Home::default());
        let asks_several = store.asks_several();
        let steady = asks_several || store.answers_at_once();
        let machine = Machine::new(store, limits, clock, spins, Arc::clone(&home));
        let shared = Arc::new(Shared::new(machine, home, clock));
        let driver = Self {
            shared: Arc::clone(&shared),
            timer: Timer::new(clock),
        };
        let engine = Engine {
            shared,
            clock,
            last_ticket: AtomicU64::new(1),
            at_once: AtomicU32::new(0),
            gives_way: AtomicU32::new(GIVES_WAY),
            steady,
            asks_several,
        };
        (driver, engine)
    }

    /// Runs until all callers are gone and everything is released.
    pub(crate) async fn run(mut self) {
        poll_fn(|cx| self.poll(cx)).await;
    }

    /// Pending while a caller looks for the answers and nothing else is to be done: what stirs the store is for that caller.
    /// `stirred`: whether something may have, that this task has not looked at.
    fn poll_rest(&mut self, stirred: bool, cx: &mut Context<'_>) -> Poll<()> {
        let shared = &self.shared;
        if shared.asker().is_none() {
            return Poll::Ready(());
        }
        shared.home.register(cx.waker());
        // Before the look at who is there: whoever leaves after it calls this task.
        if stirred {
            shared.home.leave();
        }
        loop {
            let now = shared.clock.now();
            let left = shared.asker().is_none() || shared.away_at() <= now;
            if left || shared.due_at() <= now || shared.is_called() {
                return Poll::Ready(());
            }
            let rest = lookout::longest_absence().min(shared.due_at().since(now));
            let waits = self.timer.set(rest, cx).is_pending();
            shared.home.sleeps(self.timer.at());
            if waits {
                return Poll::Pending;
            }
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut stirred = true;
        loop {
            if self.poll_rest(stirred, cx).is_pending() {
                return Poll::Pending;
            }
            let Self { shared, timer } = self;
            let due = timer.poll(cx).is_ready() || shared.due_at() <= shared.clock.now();
            // Before the look at whether it is called: whoever calls after that wakes it.
            shared.home.register(cx.waker());
            let urgent = due || shared.is_called();
            let machine = if urgent {
                Some(shared.claim())
            } else {
                shared.glance()
            };
            let Some(mut machine) = machine else {
                let rest =
                    lookout::longest_absence().min(shared.due_at().since(shared.clock.now()));
                let waits = timer.set(rest, cx).is_pending();
                shared.home.sleeps(timer.at());
                if waits {
                    return Poll::Pending;
                }
                continue;
            };
            let worked = machine.turn(&shared.inbox, due, cx.waker());
            let over = machine.is_over();
            // In any case: one that has gone off would go off again at once.
            let sleep = machine.sleep(shared.clock.now());
            let waits = timer.set(sleep, cx).is_pending();
            let sleeps = waits && !worked && !over;
            shared.home.sleeps(timer.at());
            let spins = machine.spins();
            stirred = machine.has_events();
            tell(shared.leave(machine));
            if over {
                return Poll::Ready(());
            }
            // Who brought a command meanwhile did not get the machine and has left it to us.
            if sleeps && shared.inbox.is_empty() {
                if spins {
                    // The server may be waiting for this processor.
                    std::thread::yield_now();
                    // The runtime looks at its sockets, and comes back at once.
                    cx.waker().wake_by_ref();
                }
                return Poll::Pending;
            }
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.shared.stop();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::fixtures::{LONG, Silent, order};
    use super::super::slot::Slot;
    use super::super::ticket::Order;
    use super::*;
    use crate::store::memory::{MemoryStore, Space};

    const TASKS: u32 = 8;
    const SECTIONS: u32 = 5_000;

    /// Takes and releases the key, and counts inside.
    async fn sections(engine: Arc<Engine>, inside: Arc<AtomicU64>, count: Arc<AtomicU64>) {
        for _ in 0..SECTIONS {
            let id = engine.next_ticket();
            let slot = Slot::new("hot".into(), engine.clock());
            let acquire = Command::Acquire {
                id,
                order: order("hot"),
                slot: Arc::clone(&slot),
            };
            engine.send(acquire).expect("it works");
            let granted = poll_fn(|cx| slot.poll_granted(cx)).await;
            granted.expect("granted");
            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
            count.fetch_add(1, Ordering::SeqCst);
            inside.fetch_sub(1, Ordering::SeqCst);
            slot.close();
            let release = Command::Release { id, keep: None };
            engine.send(release).expect("it works");
            poll_fn(|cx| slot.poll_released(cx)).await;
        }
    }

    /// Fails if a caller whose server answers at once has the thread for itself while others wait for it, or gives it up for nobody.
    #[tokio::test]
    async fn others_are_let_go_first_sooner_where_they_ask_meanwhile() {
        let limits = Limits::of_tests(LONG, 100);
        let (_driver, engine) = Driver::new(Box::new(Silent), limits, Clock::System, true);
        let until_one_gives_way = |asks: bool| {
            let mut calls = 0;
            let next = loop {
                if let Some(next) = engine.gives_way() {
                    break next;
                }
                calls += 1;
                engine.answered_at_once();
            };
            if asks {
                engine.next_ticket();
            }
            engine.gave_way(next);
            calls
        };
        let crowd = [true; 5].map(until_one_gives_way);
        assert_eq!(crowd, [GIVES_WAY, 16, 4, 1, 1]);
        let alone = [false; 8].map(until_one_gives_way);
        assert_eq!(alone, [1, 2, 4, 8, 16, 32, GIVES_WAY, GIVES_WAY]);
    }

    /// Fails if what is due waits until nobody looks for answers any more.
    #[tokio::test]
    async fn what_is_due_is_done_while_somebody_looks() {
        let limits = Limits::of_tests(LONG, 100);
        let (driver, engine) = Driver::new(Box::new(Silent), limits, Clock::System, true);
        let shared = Arc::clone(&engine.shared);
        let looks = || shared.is_to_look(TicketId(7), shared.clock.now() + LONG);
        let driver = tokio::spawn(driver.run());
        tokio::task::yield_now().await;
        looks();
        shared.home.call();
        // The engine's task rests for less than a millisecond at a time now.
        while shared.clock.now() + LONG / 2 < shared.home.wakes_at() {
            tokio::task::yield_now().await;
        }
        let slot = Slot::new("hot".into(), Clock::System);
        let order = Order {
            wait: Duration::from_millis(20),
            ..order("hot")
        };
        let acquire = Command::Acquire {
            id: engine.next_ticket(),
            order,
            slot: Arc::clone(&slot),
        };
        engine.send(acquire).expect("it works");
        looks();
        let told = tokio::time::timeout(LONG / 4, poll_fn(|cx| slot.poll_granted(cx))).await;
        assert!(matches!(told, Ok(Err(_))), "{told:?}");
        driver.abort();
    }

    /// The engine's own task never runs here, so a command that is left lying by a caller stays there.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn no_command_is_left_lying_where_callers_work_the_machine() {
        let clock = Clock::System;
        let store = Box::new(MemoryStore::new(Space::private(clock)));
        let limits = Limits::of_tests(LONG, 100);
        let (driver, engine) = Driver::new(store, limits, clock, false);
        let engine = Arc::new(engine);
        let (inside, count) = (Arc::default(), Arc::new(AtomicU64::new(0)));
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..TASKS {
            let (engine, inside) = (Arc::clone(&engine), Arc::clone(&inside));
            tasks.spawn(sections(engine, inside, Arc::clone(&count)));
        }
        let all = tokio::time::timeout(LONG, tasks.join_all()).await;
        all.expect("a command is left lying");
        assert_eq!(count.load(Ordering::SeqCst), u64::from(TASKS * SECTIONS));
        drop(driver);
        assert!(engine.send(Command::Close).is_err(), "stopped");
    }
}
