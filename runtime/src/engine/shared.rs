//! The machine between those who work it: the engine's task and the callers.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};

use super::home::Home;
use super::inbox::{Command, Inbox};
use super::lookout;
use super::machine::Machine;
use super::news::{News, guarded};
use super::slot::Parting;
use super::ticket::TicketId;
use crate::clock::{Clock, Instant};
use crate::{LockError, StoreError};

/// How often in a row a caller takes up what other callers bring meanwhile.
const MOST_ROUNDS: usize = 16;

/// So often a caller that is to look tries to get at the engine's state before it rests. Whoever only takes up a command has it for about 1 µs.
const TRIES: usize = 100;

/// No ticket has this number.
const NOBODY: u64 = 0;

/// What the engine's task and the callers share.
pub(super) struct Shared {
    pub(super) inbox: Inbox,
    machine: Mutex<Machine>,
    /// The engine's task waits for the machine: callers leave it to that.
    wanted: AtomicBool,
    /// Wakes that task.
    pub(super) home: Arc<Home>,
    /// Whether callers work the machine, too.
    helped: bool,
    /// See [`Machine::asker`]; [`NOBODY`] for nobody.
    asker: AtomicU64,
    /// In nanoseconds on this clock, as is when something will be due.
    looks_until: AtomicU64,
    due_at: AtomicU64,
    pub(super) clock: Clock,
    /// Whether the engine's task has been called since it last had the machine.
    called: AtomicBool,
    /// Whether a caller that was to look rests while somebody else has the machine.
    somebody_rests: AtomicBool,
    /// Who.
    resting: Mutex<Option<Waker>>,
}

impl Shared {
    pub(super) fn new(machine: Machine, home: Arc<Home>, clock: Clock) -> Self {
        Self {
            inbox: Inbox::default(),
            machine: Mutex::new(machine),
            wanted: AtomicBool::new(false),
            home,
            // Only on its own runtime a paused clock tells the time.
            helped: matches!(clock, Clock::System),
            asker: AtomicU64::new(NOBODY),
            looks_until: AtomicU64::new(0),
            due_at: AtomicU64::new(0),
            clock,
            called: AtomicBool::new(false),
            somebody_rests: AtomicBool::new(false),
            resting: Mutex::default(),
        }
    }

    /// Takes up a caller's command, or leaves it to whoever has the machine. Whether anybody will take it up, which nobody does when the
    /// engine has stopped.
    pub(super) fn send(&self, command: Command) -> bool {
        let own = command.awaited();
        if self.helped
            && !self.wanted.load(Ordering::Acquire)
            && let Ok(machine) = self.machine.try_lock()
        {
            if machine.is_stopped() {
                return false;
            }
            self.work(machine, |machine| {
                machine.take_up(command, &self.inbox, own)
            });
            if !self.inbox.is_empty() {
                self.help(own);
            }
            return true;
        }
        let taken = self.inbox.put(command);
        // Whoever has the machine looks for commands after giving it up: either this one is seen then, or the machine is free here.
        fence(Ordering::SeqCst);
        if taken {
            self.help(own);
        }
        taken
    }

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

    pub(super) fn asker(&self) -> Option<TicketId> {
        let asker = self.asker.load(Ordering::SeqCst);
        (asker != NOBODY).then_some(TicketId(asker))
    }

    /// When the caller that looks is taken to be away.
    pub(super) fn away_at(&self) -> Instant {
        lookout::away_at(Instant::from_nanos(
            self.looks_until.load(Ordering::Relaxed),
        ))
    }

    /// Whether the caller of `ticket` is to look again in a moment. Told without the machine, which somebody may have for long.
    pub(super) fn is_asker(&self, ticket: TicketId) -> bool {
        self.asker() == Some(ticket) && self.clock.now() < self.away_at()
    }

    /// Looks for answers, as the caller of `ticket`; whether it may rest until it is woken.
    pub(super) fn look(&self, ticket: TicketId, cx: &Context<'_>) -> bool {
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
        let waker = cx.waker().clone();
        let before = self.resting().replace(waker);
        self.somebody_rests.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if let Some(before) = before.filter(|before| !before.will_wake(cx.waker())) {
            // One of the two is to look, and knows.
            guarded(|| before.wake());
        }
        // Again: whoever had it may have looked for somebody who rests before that.
        self.machine.try_lock().ok()
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
        tell(news);
    }

    /// Wakes the engine's task, whoever looks for answers meanwhile.
    fn call(&self) {
        self.called.store(true, Ordering::Release);
        self.home.call();
    }

    /// When something will be due, as whoever had the machine last has found.
    pub(super) fn due_at(&self) -> Instant {
        Instant::from_nanos(self.due_at.load(Ordering::Relaxed))
    }

    /// Whether the engine's task has been called since it last had the machine.
    pub(super) fn is_called(&self) -> bool {
        self.called.load(Ordering::Acquire)
    }

    /// Gives the machine up; whom to tell what.
    pub(super) fn leave(&self, mut machine: MutexGuard<'_, Machine>) -> Option<News> {
        let (asker, until) = machine
            .asker()
            .map_or((NOBODY, Instant::ZERO), |(ticket, until)| (ticket.0, until));
        self.looks_until.store(until.as_nanos(), Ordering::Relaxed);
        // It also publishes until when. Where nobody looks, as nobody did, it need not be written.
        if asker != NOBODY || self.asker.load(Ordering::Relaxed) != NOBODY {
            self.asker.store(asker, Ordering::SeqCst);
        }
        self.due_at
            .store(machine.due_at().as_nanos(), Ordering::Relaxed);
        let mut news = machine.take_news();
        drop(machine);
        // Who finds the machine taken says so, and tries again: either that succeeds, or it is seen here.
        fence(Ordering::SeqCst);
        if asker == NOBODY && self.home.take() {
            // What it has left to the caller that looked may have come after that caller's last look.
            self.home.call();
        }
        if self.somebody_rests.load(Ordering::SeqCst)
            && self.somebody_rests.swap(false, Ordering::SeqCst)
        {
            let resting = self.resting().take();
            let wakers = &mut news.get_or_insert_default().wakers;
            wakers.extend(resting.map(Parting::Wake));
        }
        news
    }

    /// For the engine's task. It goes before callers, who could otherwise keep it from its renewals.
    pub(super) fn claim(&self) -> MutexGuard<'_, Machine> {
        self.wanted.store(true, Ordering::Release);
        self.called.store(false, Ordering::Release);
        let _ = self.home.take();
        let machine = self.machine.lock().unwrap_or_else(PoisonError::into_inner);
        self.wanted.store(false, Ordering::Release);
        machine
    }

    /// As [`claim`](Self::claim), where nothing is known to be due: whoever has the machine, or looks next, will see it too.
    pub(super) fn glance(&self) -> Option<MutexGuard<'_, Machine>> {
        if let Ok(machine) = self.machine.try_lock() {
            return Some(machine);
        }
        self.home.leave();
        fence(Ordering::SeqCst);
        // Again: whoever had it may have given it up before that.
        let machine = self.machine.try_lock().ok()?;
        let _ = self.home.take();
        Some(machine)
    }

    /// The runtime that the engine's task ran on is gone, or the engine panicked: nobody may wait for it for ever.
    pub(super) fn stop(&self) {
        let mut machine = self.claim();
        machine.stop(self.inbox.stop(), &stopped());
        tell(self.leave(machine));
    }
}

/// Tells what there is to tell, after the machine has been given up.
pub(super) fn tell(news: Option<News>) {
    if let Some(news) = news {
        news.tell();
    }
}

pub(super) fn stopped() -> LockError {
    LockError::Unavailable {
        source: StoreError::new(
            "stopped",
            "the pool's engine has stopped: the runtime it ran on is gone, or it panicked; connect the pool anew, and install it in the place of this one",
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::core::Limits;
    use super::super::fixtures::{LONG, counting};
    use super::*;
    use crate::store::memory::{MemoryStore, Space};

    const TICKET: TicketId = TicketId(7);

    fn shared() -> Shared {
        let (clock, home) = (Clock::System, Arc::new(Home::default()));
        let store = Box::new(MemoryStore::new(Space::private(clock)));
        let limits = Limits::of_tests(LONG, 100);
        let machine = Machine::new(store, limits, clock, true, Arc::clone(&home));
        Shared::new(machine, home, clock)
    }

    impl Shared {
        /// As if that had been decided.
        pub(in crate::engine) fn is_to_look(&self, ticket: TicketId, until: Instant) {
            self.asker.store(ticket.0, Ordering::SeqCst);
            self.looks_until.store(until.as_nanos(), Ordering::SeqCst);
        }
    }

    fn look(shared: &Shared) -> (bool, impl Fn() -> usize) {
        let (task, woken) = counting();
        (shared.look(TICKET, &Context::from_waker(&task)), woken)
    }

    /// Fails if a caller that looks for its answer goes on while somebody else keeps the machine, which only its own turn would end.
    #[tokio::test]
    async fn nobody_looks_for_long_at_a_machine_that_is_taken() {
        let shared = shared();
        let _taken = shared.machine.lock();
        let until = shared.clock.now() + Duration::from_millis(5);
        shared.is_to_look(TICKET, until);
        let (rests, woken) = look(&shared);
        assert!(rests && woken() == 0);
        assert!(shared.is_asker(TICKET) && !shared.is_asker(TicketId(8)));
        while shared.is_asker(TICKET) {
            assert!(shared.clock.now() < until + LONG, "it is still to look");
        }
        assert!(until <= shared.clock.now(), "it gave up too soon");
    }

    /// Fails if whoever gives the machine up forgets the caller that is to look and could not.
    #[tokio::test]
    async fn who_rests_is_woken_when_somebody_else_is_done() {
        let shared = shared();
        let taken = shared.machine.lock().expect("nobody has panicked");
        shared.is_to_look(TICKET, shared.clock.now() + LONG);
        let (rests, woken) = look(&shared);
        assert!(rests && woken() == 0);
        tell(shared.leave(taken));
        assert_eq!(woken(), 1);
        tell(shared.leave(shared.claim()));
        assert_eq!(woken(), 1, "once");
        let (rests, _) = look(&shared);
        assert!(!rests, "nobody has it");
    }

    /// Fails if one that rests is forgotten for another: either may be the one that is to look by now.
    #[tokio::test]
    async fn of_two_who_would_rest_one_is_woken_at_once_and_one_at_the_end() {
        let shared = shared();
        let taken = shared.machine.lock().expect("nobody has panicked");
        let (_, one) = look(&shared);
        let (_, other) = look(&shared);
        assert_eq!((one(), other()), (1, 0));
        tell(shared.leave(taken));
        assert_eq!((one(), other()), (1, 1));
    }

    /// Fails if what has stirred the engine's task while somebody had the machine is left to nobody.
    #[tokio::test]
    async fn the_task_that_found_the_machine_taken_is_called_when_nobody_is_left_to_look() {
        let shared = shared();
        let (task, woken) = counting();
        shared.home.register(&task);
        let taken = shared.machine.lock().expect("nobody has panicked");
        assert!(shared.glance().is_none() && woken() == 0);
        tell(shared.leave(taken));
        assert_eq!(woken(), 1);
        shared.home.register(&task);
        let free = shared.glance().expect("nobody has it");
        tell(shared.leave(free));
        assert_eq!(woken(), 1, "there is nothing to look for");
    }
}
