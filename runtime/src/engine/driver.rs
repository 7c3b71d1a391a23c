//! Who works the machine, and when.
//!
//! A pool's engine has a task of its own, on a thread of its own, which waits for the store and for the time. But a caller that
//! finds the machine at rest takes up its command itself: a lock that is passed on inside the process, or kept by a store in the
//! process, then costs no wake-up of a thread. A caller never waits for the machine: whoever has it looks for further
//! commands after giving it up. While a caller looks for the answers to all the engine's task rests, but for what is due.

use std::fmt;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::core::Limits;
use super::home::Home;
use super::inbox::{Command, Inbox};
use super::lookout;
use super::machine::Machine;
use super::news::News;
use super::ticket::TicketId;
use super::timer::Timer;
use crate::clock::{Clock, Instant};
use crate::store::LockStore;
use crate::{LockError, StoreError};

/// How often in a row a caller takes up what other callers bring meanwhile.
const MOST_ROUNDS: usize = 16;

/// Where several servers are to answer, for so long a caller looks for it in one go. To let others have the thread between two looks wakes
/// one of the runtime's other threads each time, which takes a processor that the servers need.
const STRETCH: Duration = Duration::from_micros(80);

/// After so many calls of the pool that were answered before their callers had to wait, one lets the other tasks of its runtime go first. They
/// never would otherwise: on a store in the process, within a [`STRETCH`], and where the server answers while its caller still writes.
const GIVES_WAY: u32 = 64;

/// So often a caller that is to look tries to get at the engine's state before it rests. Whoever only takes up a command has it for about 1 µs.
const TRIES: usize = 100;

/// No ticket has this number.
const NOBODY: u64 = 0;

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
    /// Whether it is [`GIVES_WAY`] in any case: nothing leaves a store in the process together.
    in_process: bool,
    /// See [`LockStore::asks_several`].
    asks_several: bool,
}

impl Engine {
    pub(crate) fn clock(&self) -> Clock {
        self.clock
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
        if self.in_process {
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
        let own = command.awaited();
        self.shared.inbox.put(command).map_err(|_| stopped())?;
        self.shared.help(own);
        Ok(())
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
        self.shared.asker() == Some(ticket) && self.clock.now() < self.shared.away_at()
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

/// What the engine's task and the callers share.
struct Shared {
    inbox: Inbox,
    machine: Mutex<Machine>,
    /// The engine's task waits for the machine: callers leave it to that.
    wanted: AtomicBool,
    /// Wakes that task.
    home: Arc<Home>,
    /// Whether callers work the machine, too.
    helped: bool,
    /// See [`Machine::asker`]; [`NOBODY`] for nobody.
    asker: AtomicU64,
    /// In nanoseconds on this clock.
    looks_until: AtomicU64,
    clock: Clock,
    /// Whether the engine's task has been called since it last had the machine.
    called: AtomicBool,
    /// Whether a caller that was to look rests while somebody else has the machine.
    somebody_rests: AtomicBool,
    /// Who.
    resting: Mutex<Option<Waker>>,
}

impl Shared {
    /// Takes up commands, unless somebody has the machine, who then will. `own`: the ticket whose caller does so.
    fn help(&self, own: Option<TicketId>) {
        if !self.helped {
            return self.call();
        }
        for _ in 0..MOST_ROUNDS {
            if self.wanted.load(Ordering::Acquire) {
                return;
            }
            // Poisoned: the engine's task is about to tell everybody that it has stopped.
            let Ok(machine) = self.machine.try_lock() else {
                return;
            };
            self.work(machine, |machine| machine.help(&self.inbox, own));
            if self.inbox.is_empty() {
                return;
            }
        }
        self.call();
    }

    fn asker(&self) -> Option<TicketId> {
        let asker = self.asker.load(Ordering::SeqCst);
        (asker != NOBODY).then_some(TicketId(asker))
    }

    /// When the caller that looks is taken to be away.
    fn away_at(&self) -> Instant {
        lookout::away_at(Instant::from_nanos(
            self.looks_until.load(Ordering::Relaxed),
        ))
    }

    /// Looks for answers, as the caller of `ticket`; whether it may rest until it is woken.
    fn look(&self, ticket: TicketId, cx: &Context<'_>) -> bool {
        // Otherwise somebody is about to have it, and may find the answers.
        if !self.wanted.load(Ordering::Acquire) {
            let Some(machine) = self.machine_or_rest(cx) else {
                return true;
            };
            self.work(machine, Machine::look);
            if !self.inbox.is_empty() {
                self.help(Some(ticket));
            }
        }
        if self.asker() == Some(ticket) {
            // The server may be waiting for this processor.
            std::thread::yield_now();
        }
        false
    }

    /// The machine, unless somebody has it, who may find the answers, and wakes this task when giving it up.
    fn machine_or_rest(&self, cx: &Context<'_>) -> Option<MutexGuard<'_, Machine>> {
        for _ in 0..TRIES {
            if let Ok(machine) = self.machine.try_lock() {
                return Some(machine);
            }
            std::hint::spin_loop();
        }
        self.resting().replace(cx.waker().clone());
        self.somebody_rests.store(true, Ordering::SeqCst);
        // Again: whoever had it may have looked for somebody who rests before that.
        let machine = self.machine.try_lock().ok()?;
        self.somebody_rests.store(false, Ordering::SeqCst);
        self.resting().take();
        Some(machine)
    }

    fn resting(&self) -> MutexGuard<'_, Option<Waker>> {
        self.resting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A caller's work on the machine, which says whether the engine's task has to be called.
    fn work(&self, mut machine: MutexGuard<'_, Machine>, work: impl FnOnce(&mut Machine) -> bool) {
        // A mistake of the engine's is not to end a caller's thread.
        let calls = catch_unwind(AssertUnwindSafe(|| work(&mut machine)));
        if calls.is_err() {
            // At once: what is half done is not to be gone on with.
            machine.stop(self.inbox.stop(), &stopped());
        }
        let news = self.leave(machine);
        if calls.unwrap_or(true) {
            self.call();
        }
        news.tell();
    }

    /// Wakes the engine's task, whoever looks for answers meanwhile.
    fn call(&self) {
        self.called.store(true, Ordering::Release);
        self.home.call();
    }

    /// Gives the machine up; whom to tell what.
    fn leave(&self, mut machine: MutexGuard<'_, Machine>) -> News {
        let (asker, until) = machine
            .asker()
            .map_or((NOBODY, Instant::ZERO), |(ticket, until)| (ticket.0, until));
        self.looks_until.store(until.as_nanos(), Ordering::Relaxed);
        self.asker.store(asker, Ordering::SeqCst);
        if asker == NOBODY && self.home.take() {
            // What it has left to the caller that looked may have come after that caller's last look.
            self.home.call();
        }
        let mut news = machine.take_news();
        drop(machine);
        if self.somebody_rests.load(Ordering::SeqCst)
            && self.somebody_rests.swap(false, Ordering::SeqCst)
        {
            news.wakers.extend(self.resting().take());
        }
        news
    }

    /// For the engine's task. It goes before callers, who could otherwise keep it from its renewals.
    fn claim(&self) -> MutexGuard<'_, Machine> {
        self.wanted.store(true, Ordering::Release);
        self.called.store(false, Ordering::Release);
        let _ = self.home.take();
        let machine = self.machine.lock().unwrap_or_else(PoisonError::into_inner);
        self.wanted.store(false, Ordering::Release);
        machine
    }

    /// As [`claim`](Self::claim), where nothing is known to be due: whoever has the machine, or looks next, will see it too.
    fn glance(&self, task: &Waker) -> Option<MutexGuard<'_, Machine>> {
        self.home.register(task);
        if let Ok(machine) = self.machine.try_lock() {
            return Some(machine);
        }
        self.home.leave();
        // Again: whoever had it may have given it up before that.
        let machine = self.machine.try_lock().ok()?;
        let _ = self.home.take();
        Some(machine)
    }

    /// The runtime that the engine's task ran on is gone, or the engine panicked: nobody may wait for it for ever.
    fn stop(&self) {
        let mut machine = self.claim();
        machine.stop(self.inbox.stop(), &stopped());
        self.leave(machine).tell();
    }
}

/// The engine's own task.
pub(crate) struct Driver {
    shared: Arc<Shared>,
    timer: Timer,
    /// When something will be due, as far as is known.
    due_at: Instant,
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
        let (asks_several, in_process) = (store.asks_several(), store.answers_at_once());
        let machine = Machine::new(store, limits, clock, spins, Arc::clone(&home));
        let shared = Arc::new(Shared {
            inbox: Inbox::default(),
            machine: Mutex::new(machine),
            wanted: AtomicBool::new(false),
            home,
            // Only on its own runtime a paused clock tells the time.
            helped: matches!(clock, Clock::System),
            asker: AtomicU64::new(NOBODY),
            looks_until: AtomicU64::new(0),
            clock,
            called: AtomicBool::new(false),
            somebody_rests: AtomicBool::new(false),
            resting: Mutex::default(),
        });
        let driver = Self {
            shared: Arc::clone(&shared),
            timer: Timer::new(clock),
            due_at: Instant::ZERO,
        };
        let engine = Engine {
            shared,
            clock,
            last_ticket: AtomicU64::new(1),
            at_once: AtomicU32::new(0),
            gives_way: AtomicU32::new(GIVES_WAY),
            in_process,
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
            if left || self.due_at <= now || shared.called.load(Ordering::Acquire) {
                return Poll::Ready(());
            }
            let rest = lookout::longest_absence().min(self.due_at.since(now));
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
            let Self {
                shared,
                timer,
                due_at,
            } = self;
            let due = timer.poll(cx).is_ready() || *due_at <= shared.clock.now();
            let urgent = due || shared.called.load(Ordering::Acquire);
            let machine = if urgent {
                Some(shared.claim())
            } else {
                shared.glance(cx.waker())
            };
            let Some(mut machine) = machine else {
                let rest = lookout::longest_absence().min(due_at.since(shared.clock.now()));
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
            let now = shared.clock.now();
            let sleep = machine.sleep(now);
            *due_at = now + sleep;
            let waits = timer.set(sleep, cx).is_pending();
            let sleeps = waits && !worked && !over;
            shared.home.sleeps(timer.at());
            let spins = machine.spins();
            stirred = machine.has_events();
            shared.leave(machine).tell();
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

fn stopped() -> LockError {
    LockError::Unavailable {
        source: StoreError::new(
            "stopped",
            "the pool's engine has stopped: the runtime it ran on is gone, or it panicked; connect the pool anew",
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::slot::Slot;
    use super::super::ticket::Order;
    use super::*;
    use crate::lease::Terms;
    use crate::store::memory::{MemoryStore, Space};
    use crate::token::{Nonce, Token};

    const LONG: Duration = Duration::from_secs(60);
    const TASKS: u32 = 8;
    const SECTIONS: u32 = 5_000;

    fn order() -> Order {
        Order {
            key: "hot".into(),
            name: "hot".into(),
            token: Token::random(Nonce::new()),
            owner: "".into(),
            terms: Terms::new(LONG).expect("a ttl"),
            watchdog: None,
            wait: LONG,
            share: None,
        }
    }

    /// Takes and releases the key, and counts inside.
    async fn sections(engine: Arc<Engine>, inside: Arc<AtomicU64>, count: Arc<AtomicU64>) {
        for _ in 0..SECTIONS {
            let id = engine.next_ticket();
            let slot = Slot::new("hot".into(), engine.clock());
            let acquire = Command::Acquire {
                id,
                order: Box::new(order()),
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

    /// Fails if a caller that looks for its answer goes on while somebody else keeps the machine, which only its own turn would end.
    #[tokio::test]
    async fn nobody_looks_for_long_at_a_machine_that_is_taken() {
        let clock = Clock::System;
        let store = Box::new(MemoryStore::new(Space::private(clock)));
        let (_driver, engine) = Driver::new(store, Limits::of_tests(LONG, 100), clock, true);
        let (shared, ticket) = (&engine.shared, engine.next_ticket());
        let _taken = shared.machine.lock();
        let now = clock.now();
        let until = now + Duration::from_millis(5);
        shared.asker.store(ticket.0, Ordering::Relaxed);
        shared
            .looks_until
            .store(until.as_nanos(), Ordering::Relaxed);
        assert!(
            !engine.is_asker(engine.next_ticket()),
            "the answer is another's"
        );
        let mut looks = 0_u32;
        while engine.is_asker(ticket) {
            engine.look(ticket, &Context::from_waker(Waker::noop()));
            looks += 1;
            assert!(clock.now().since(now) < LONG, "it is still looking");
        }
        assert!(until <= clock.now(), "it gave up after {looks} looks");
    }
}
