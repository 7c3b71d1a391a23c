//! The machine on a caller's thread: without the engine's task where that would only cost a wake-up.

use tokio::runtime::{Handle, TryCurrentError};

use super::super::core::Load;
use super::super::inbox::{Command, Inbox};
use super::super::ticket::TicketId;
use super::hearing::uncounted;
use super::{LIMIT, Life, Machine};
use crate::clock::Instant;
use crate::store::Attention;

/// How often a caller's thread looks at the store again because something has stirred, before it leaves that to the engine's task.
const MOST_LOOKS: usize = 4;

/// So many requests that are ready together are a full script.
const ENOUGH: usize = 32;

impl Machine {
    /// A turn of a caller's thread: takes up what callers ask. What that asks of the store goes out at once if the store answers at once, and if
    /// nothing else is under way. Otherwise what comes together is put together: by the caller that looks for the answers of all, or by the
    /// engine's own task.
    ///
    /// `own`: the ticket whose caller this is, if it waits for an answer. Whether the engine's task has to be [called](Home::call).
    pub(in crate::engine) fn help(&mut self, inbox: &Inbox, own: Option<TicketId>) -> bool {
        if self.life == Life::Stopped {
            return false;
        }
        if !inbox.is_empty() {
            inbox.take(&mut self.inbox);
        }
        let now = self.commands().unwrap_or_else(|| self.clock.now());
        self.follow_up(now, own)
    }

    /// The same for a command that this caller brings, after those that have been brought before.
    pub(in crate::engine) fn take_up(
        &mut self,
        command: Command,
        inbox: &Inbox,
        own: Option<TicketId>,
    ) -> bool {
        if !inbox.is_empty() || !self.inbox.is_empty() {
            inbox.take(&mut self.inbox);
            self.inbox.push(command);
            return self.help(inbox, own);
        }
        let now = self.clock.now();
        self.command(command, now);
        self.follow_up(now, own)
    }

    /// What follows from commands that have been taken up at `now`.
    fn follow_up(&mut self, now: Instant, own: Option<TicketId>) -> bool {
        let mut now = now;
        let mut calls = false;
        if self.store.answers_at_once() {
            self.ask_at_once(now);
        } else if self.core.has_requests() && self.store.works_anywhere() {
            if self.asker.is_none() && self.core.is_lone(0) {
                if self.may_ask_from_here() {
                    self.ask_from_here(own);
                    // While the server wakes up, so does the engine's thread, unless the caller looks for the answer itself.
                    calls |= self.spin.is_quick() && self.asker.is_none();
                }
            } else {
                self.appoint(now, own);
                self.share_attention();
                if self.asker.is_some() && self.is_a_part(now) {
                    self.send_on();
                }
            }
            now = self.clock.now();
        }
        self.tell_all();
        if self.asker.is_some() {
            self.appoint(now, own);
        }
        calls || self.calls(now)
    }

    /// A look of a caller's thread for answers, on behalf of all.
    ///
    /// Whether the engine's task has to be [called](Home::call).
    pub(in crate::engine) fn look(&mut self) -> bool {
        if self.asker.is_none() {
            return false;
        }
        self.was_away = false;
        if !self.may_ask_from_here() {
            self.unattend();
            return true;
        }
        let mut heard = self.send_on();
        {
            let runtime = self.runtime.clone();
            let _context = runtime.enter();
            heard |= self.listen_from_here();
        }
        heard |= self.send_on();
        self.tell_all();
        let now = self.clock.now();
        if heard {
            self.appoint(now, None);
        } else if self.looks_until().is_none_or(|until| until <= now) {
            // Later than usual. What has come since the look is for the engine's task, which has rested.
            self.lookout.gives_up();
            self.unattend();
            return true;
        }
        self.calls(now)
    }

    /// Sends what others have asked meanwhile, when there is enough of it for the server to be kept busy; whether anything has come.
    fn send_on(&mut self) -> bool {
        let mut heard = false;
        for _ in 0..MOST_LOOKS {
            if !self.is_worth_sending() || !self.may_ask_from_here() {
                break;
            }
            self.share_attention();
            let runtime = self.runtime.clone();
            let _context = runtime.enter();
            let _ = self.submit(self.clock.now());
            heard |= self.listen_from_here();
        }
        heard
    }

    /// Whether there is so much to be sent that it is not left to whoever looks: that will be after those who have been told and not asked yet.
    fn is_a_part(&mut self, now: Instant) -> bool {
        let Load { unsent, sent } = self.core.load();
        let part = self.lookout.part(unsent + sent).min(ENOUGH);
        part <= unsent || self.lookout.is_quiet(now)
    }

    /// A full script, or half as much as the server has to do, or anything if it has nothing to do.
    fn is_worth_sending(&self) -> bool {
        let Load { unsent, sent } = self.core.load();
        let enough = ENOUGH <= unsent || sent <= 2 * unsent;
        unsent > 0 && (enough || self.lookout.is_quiet(self.clock.now()))
    }

    /// Asks a store that answers at once, until nothing is left to ask.
    fn ask_at_once(&mut self, now: Instant) {
        while self.core.has_requests() {
            let mut requests = self.core.take_requests(now);
            // Those of the engine's task among them, which it may not have taken yet.
            let mut answers = self.core.under_way();
            self.store.submit(&mut requests);
            self.core.reuse_requests(requests);
            // What has been taken and not heard goes first.
            self.replies(now);
            // No further: of what others do the store tells its waker.
            while 0 < answers
                && let Some(event) = self.poll_once()
            {
                answers -= 1;
                self.hear(event, now);
            }
        }
    }

    /// Whether this thread may write to the server: not in a copy of the process that `fork` has made, to which the connection does not
    /// belong; and not so late in a thread's life that it cannot enter a runtime. To find out takes a system call.
    fn may_ask_from_here(&self) -> bool {
        let torn_down = |error: &TryCurrentError| error.is_thread_local_destroyed();
        std::process::id() == self.process
            && !Handle::try_current().is_err_and(|error| torn_down(&error))
    }

    /// Writes what there is to ask, without the engine's task; that takes in the answers, or the caller does.
    fn ask_from_here(&mut self, own: Option<TicketId>) {
        let runtime = self.runtime.clone();
        let _context = runtime.enter();
        let lone = self.submit(self.clock.now());
        let looks = self.spin.is_quick() && self.store.reads_anywhere();
        let asker = lone.and_then(|(op, only)| Some((self.core.asker(op)?, only)));
        match asker.filter(|_| looks) {
            Some((asker, true)) => self.entrust(asker, own, Attention::Caller),
            Some((asker, false)) if self.suits_lookout() => {
                let own = own.filter(|own| self.core.is_asking(*own));
                self.entrust(own.unwrap_or(asker), own, Attention::Both);
            }
            _ => self.attend(None, Attention::Runtime),
        }
        self.listen_from_here();
    }

    /// Takes in what the store has to say, on a thread that is in the context of its runtime; whether it had anything.
    fn listen_from_here(&mut self) -> bool {
        self.home.mute();
        let _ = self.home.take();
        let heard = uncounted(|| self.poll_quietly());
        if heard {
            self.replies(self.clock.now());
        }
        heard
    }

    /// Polls the store until it has nothing to say and nothing has stirred it meanwhile, or until there is enough for a [`look`](Self::look).
    fn poll_quietly(&mut self) -> bool {
        let mut heard = false;
        for _ in 0..MOST_LOOKS {
            heard |= self.poll_store();
            if self.left_lying {
                self.home.listen();
                return heard;
            }
            if LIMIT <= self.events.len() {
                break;
            }
            if self.home.unmute() {
                return heard;
            }
        }
        self.home.hand_back();
        self.stirred = true;
        heard
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::Waker;
    use std::time::Duration;

    use super::super::super::core::Limits;
    use super::super::super::fixtures::{LONG, order};
    use super::super::super::slot::Slot;
    use super::super::super::ticket::Order;
    use super::*;
    use crate::clock::Clock;
    use crate::store::memory::{MemoryStore, Space};

    /// Fails if answers beyond those that are taken at once are left lying in a store that wakes nobody for them.
    #[tokio::test]
    async fn all_answers_of_a_store_in_the_process_are_taken() {
        let (mut machine, inbox) = (machine(4 * LIMIT), Inbox::default());
        let mut slots = Vec::new();
        for number in 0..3 * LIMIT as u64 {
            let (command, slot) = acquire(number, &number.to_string());
            assert!(inbox.put(command));
            slots.push(slot);
        }
        machine.help(&inbox, None);
        assert!(slots.iter().all(|slot| slot.is_live()));
    }

    /// On a store in the process.
    fn machine(in_flight: usize) -> Machine {
        let clock = Clock::System;
        let store = Box::new(MemoryStore::new(Space::private(clock)));
        let limits = Limits {
            in_flight,
            ..Limits::of_tests(LONG, 100)
        };
        Machine::new(store, limits, clock, false, Arc::default())
    }

    /// Somebody tries once to have the lock of this name.
    fn acquire(number: u64, name: &str) -> (Command, Arc<Slot>) {
        let slot = Slot::new(name.into(), Clock::System);
        let command = Command::Acquire {
            id: TicketId(number),
            order: Order {
                wait: Duration::ZERO,
                ..order(name)
            },
            slot: Arc::clone(&slot),
        };
        (command, slot)
    }

    /// Fails if a caller that takes up its command itself goes before those that have left theirs.
    #[tokio::test]
    async fn commands_are_taken_up_in_their_order() {
        let (mut machine, inbox) = (machine(100), Inbox::default());
        let (first, earlier) = acquire(1, "key");
        let (second, later) = acquire(2, "key");
        assert!(inbox.put(first));
        machine.take_up(second, &inbox, None);
        assert!(earlier.is_live() && !later.is_live());
    }

    /// Fails if a caller takes the answer to what the engine's task has asked for its own.
    #[tokio::test]
    async fn answers_that_nobody_has_taken_are_taken_along() {
        let (mut machine, inbox) = (machine(100), Inbox::default());
        let (first, earlier) = acquire(1, "one");
        let (second, later) = acquire(2, "other");
        assert!(inbox.put(first));
        machine.turn(&inbox, false, Waker::noop());
        assert!(!earlier.is_live(), "the answer is in the store");
        machine.take_up(second, &inbox, None);
        assert!(earlier.is_live() && later.is_live());
    }
}
