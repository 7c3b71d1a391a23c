//! The core with what surrounds it: feeds it, and carries out what it decides.

use std::collections::HashMap;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use self::hearing::uncounted;
use super::alarms::Alarms;
use super::core::{Core, Limits, Signal, earlier};
use super::home::Home;
use super::inbox::{Command, Inbox};
use super::lookout::{self, Lookout};
use super::meter;
use super::news::News;
use super::shutdown::ShutdownReport;
use super::slot::Slot;
use super::spin::Spin;
use super::ticket::{Removal, TicketId};
use crate::LockError;
use crate::clock::{Clock, Instant};
use crate::counted::CountedMap;
use crate::store::{Attention, LockStore, OpId, Request, StoreEvent};

mod attention;
mod caller;
mod hearing;

/// How many of the store's events are taken at most before what follows from them is carried out, unless something is due.
const LIMIT: usize = 1024;

/// The longest sleep of the engine's task. The runtime's timers stand still while the machine is suspended and leases do not, so the
/// time is looked at again after this long.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// The runtime's timers go off to the millisecond.
const TICK: Duration = Duration::from_millis(1);

/// So much later than it was to wake the engine's task is taken to be asleep: it wakes to the millisecond, and other threads
/// may have the processors.
const LATE: Duration = Duration::from_millis(5);

/// The sleep while nothing is held or waiting: only a command or the store can bring work.
const IDLE_SLEEP: Duration = Duration::from_secs(24 * 60 * 60);

/// An engine's state. One thread at a time has it.
pub(super) struct Machine {
    core: Core,
    store: Box<dyn LockStore>,
    clock: Clock,
    inbox: Vec<Command>,
    events: Vec<StoreEvent>,
    slots: CountedMap<TicketId, Arc<Slot>>,
    shutdowns: HashMap<u64, oneshot::Sender<ShutdownReport>>,
    last_shutdown: u64,
    alarms: Alarms,
    life: Life,
    /// Wakes the engine's own task.
    home: Arc<Home>,
    /// The same, as the store is polled with it.
    waker: Waker,
    /// The one that the store is connected in.
    runtime: Handle,
    spin: Spin,
    lookout: Lookout,
    /// Whose caller looks for the answers: to its request, if that is alone, or to all.
    asker: Option<TicketId>,
    /// Who looks for answers, as the store knows.
    attention: Attention,
    /// When the engine's task looks after the caller that looks, without hearing of answers itself.
    watch_at: Option<Instant>,
    due_at: Instant,
    /// Whether the store had more to say than a caller's thread has listened to.
    stirred: bool,
    /// Whether there may be answers that are for the next look.
    left_lying: bool,
    /// Whether nobody has looked since one was away that was to.
    was_away: bool,
    news: News,
    /// The process that made this.
    process: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    Open,
    /// All callers are gone; what is held is still released.
    Closed,
    /// Nothing is done any more.
    Stopped,
}

impl Machine {
    pub(super) fn new(
        store: Box<dyn LockStore>,
        limits: Limits,
        clock: Clock,
        spins: bool,
        home: Arc<Home>,
    ) -> Self {
        let seed = clock.now().as_nanos() ^ u64::from(std::process::id()).rotate_left(32);
        Self {
            core: Core::new(limits, seed),
            store,
            clock,
            inbox: Vec::new(),
            events: Vec::new(),
            slots: CountedMap::default(),
            shutdowns: HashMap::new(),
            last_shutdown: 0,
            alarms: Alarms::default(),
            life: Life::Open,
            waker: Waker::from(Arc::clone(&home)),
            home,
            runtime: Handle::current(),
            spin: Spin::new(spins),
            lookout: Lookout::new(spins),
            asker: None,
            attention: Attention::Runtime,
            watch_at: None,
            due_at: Instant::ZERO,
            stirred: false,
            left_lying: false,
            was_away: false,
            news: News::default(),
            process: std::process::id(),
        }
    }

    /// A turn of the engine's own task: what there is to do that is not left to a caller that looks. Whether there was anything.
    pub(super) fn turn(&mut self, inbox: &Inbox, due: bool, task: &Waker) -> bool {
        self.home.register(task);
        if self.life == Life::Stopped {
            return false;
        }
        inbox.take(&mut self.inbox);
        let began = self.clock.now();
        // As long as a caller is to look, what has come is seen without the runtime.
        let told = if self.hears_all(began) {
            self.poll_all()
        } else {
            self.poll_store()
        };
        let now = self.clock.now();
        self.replace_absent(now);
        self.watch(now);
        if !told && !due && self.inbox.is_empty() && !self.core.has_requests() {
            return false;
        }
        let now = self.clock.now();
        // Replies first: a lease that they prolong is not due.
        self.replies(now);
        let now = self.commands().unwrap_or(now);
        // What has become due since then may be due no more by an answer that nobody has heard: it is for the next turn.
        self.core.tick(began);
        self.news.alarms.extend(self.alarms.due(now));
        self.carry_out(now);
        if told || self.asker.is_some() {
            self.appoint(now, None);
        }
        if self.asker.is_some() {
            // What has been submitted is written, as the task may rest now. What has come is for the next look.
            uncounted(|| self.poll_store());
        }
        true
    }

    /// Whether there is anything for the engine's task to do now that it does not know of.
    fn calls(&mut self, now: Instant) -> bool {
        let wakes_at = self.home.wakes_at();
        // Due by its own clock, the task may still be asleep after a suspend.
        let late = wakes_at + LATE <= now;
        let early = self.looks_at(now) + TICK < wakes_at;
        // What is left to a caller that looks is left to it as long as the task would see that it stays away.
        let seen_to = |(_, until): (TicketId, Instant)| wakes_at <= lookout::away_at(until) + TICK;
        let left = self.core.has_requests() && !self.asker().is_some_and(seen_to);
        let left = left || self.left_lying && self.asker.is_none();
        std::mem::take(&mut self.stirred) || late || early || left || self.is_over()
    }

    /// Whether an answer is so near that the engine's task had better not sleep.
    pub(super) fn spins(&self) -> bool {
        self.asker.is_none() && self.spin.goes_on(self.clock.now())
    }

    /// How long the engine's task may sleep from now on.
    pub(super) fn sleep(&mut self, now: Instant) -> Duration {
        self.looks_at(now).since(now)
    }

    /// Until when the engine's task may sleep.
    fn looks_at(&mut self, now: Instant) -> Instant {
        let next = earlier(self.core.next_due(), self.alarms.next_due());
        let next = earlier(next, self.watch_at);
        self.due_at = next.unwrap_or(now + IDLE_SLEEP);
        next.map_or(self.due_at, |due| due.min(now + LONGEST_SLEEP).max(now))
    }

    /// Whether it takes nothing up any more.
    pub(super) fn is_stopped(&self) -> bool {
        self.life == Life::Stopped
    }

    /// When something will be due, as [`sleep`](Self::sleep) has found last.
    pub(super) fn due_at(&self) -> Instant {
        self.due_at
    }

    /// Whether the engine's task may end.
    pub(super) fn is_over(&self) -> bool {
        match self.life {
            Life::Open => false,
            Life::Closed => self.core.is_idle(),
            Life::Stopped => true,
        }
    }

    /// What to tell whom when the machine has been given up, and not before: they will want it, and what a waker does is not the
    /// engine's business.
    pub(super) fn take_news(&mut self) -> Option<News> {
        self.news.take()
    }

    /// Nothing will be taken up any more: nobody may wait for it for ever.
    pub(super) fn stop(&mut self, left: Vec<Command>, error: &LockError) {
        let slots = self.slots.drain().map(|(_, slot)| slot);
        let refused = self.inbox.drain(..).chain(left);
        let refused = refused.flat_map(|command| self.news.refuse(command));
        for slot in slots.chain(refused.collect::<Vec<_>>()) {
            self.news.wakers.extend(slot.orphan(error.clone()));
            self.news.over.push(slot);
        }
        self.unattend();
        let shutdowns = self.shutdowns.drain().map(|(_, reply)| reply);
        self.news.unanswered.extend(shutdowns);
        self.news.alarms.extend(self.alarms.take());
        self.life = Life::Stopped;
        // Its connections are of no use any more.
        self.news.left = Some(std::mem::replace(&mut self.store, Box::new(Gone)));
        self.home.hand_back();
    }

    /// When the last was taken up, if there was one.
    fn commands(&mut self) -> Option<Instant> {
        // What is not handled yet stays where `stop` finds it, should handling one panic.
        self.inbox.reverse();
        let mut last = None;
        while let Some(command) = self.inbox.pop() {
            // Read for each command: an order's budget starts when it is taken, not when the batch was.
            let now = self.clock.now();
            self.command(command, now);
            last = Some(now);
        }
        last
    }

    fn command(&mut self, command: Command, now: Instant) {
        match command {
            Command::Acquire { id, order, slot } => {
                self.slots.insert(id, slot);
                self.core.acquire(id, order, now);
            }
            Command::AcquireAll { orders, wait } => {
                let orders = orders.into_iter().map(|(id, order, slot)| {
                    self.slots.insert(id, slot);
                    (id, order)
                });
                let orders = orders.collect();
                self.core.acquire_all(orders, wait, now);
            }
            Command::Release { id, keep } => self.core.release(id, keep, now),
            Command::ReleaseAll { ids, keep } => {
                for id in ids {
                    self.core.release(id, keep, now);
                }
            }
            Command::Abandon(id) => {
                let slot = self.slots.remove(&id);
                self.news.wakers.extend(slot.and_then(|slot| slot.forget()));
                self.core.abandon(id, now);
            }
            Command::Downgrade(id) => self.core.downgrade(id, now),
            Command::Wake { at, caller } => self.news.alarms.extend(self.alarms.set(at, caller)),
            Command::ShutDown { limit, reply } => {
                self.last_shutdown += 1;
                self.shutdowns.insert(self.last_shutdown, reply);
                self.core.shut_down(self.last_shutdown, limit, now);
            }
            Command::Close => self.life = Life::Closed,
            #[cfg(feature = "__test")]
            Command::Inside(code) => code(),
        }
    }

    fn carry_out(&mut self, now: Instant) {
        if self.core.has_requests() {
            self.share_attention();
            let _ = self.submit(now);
        }
        self.tell_all();
    }

    /// If nothing else is under way, the request whose caller is to look for the answers, and whether it is the only one that somebody
    /// waits for.
    fn submit(&mut self, now: Instant) -> Option<(OpId, bool)> {
        let mut requests = self.core.take_requests(now);
        let lone = looked_for(&requests).filter(|_| self.core.is_lone(requests.len()));
        if lone.is_some() {
            self.spin.asked(now);
        }
        self.store.submit(&mut requests);
        self.core.reuse_requests(requests);
        if self.asker.is_some() {
            // Of several servers others may have to answer now.
            self.store.attend(self.attention);
        }
        lone
    }

    fn tell_all(&mut self) {
        let mut signals = self.core.take_signals();
        for signal in signals.drain(..) {
            self.tell(signal);
        }
        self.core.reuse_signals(signals);
    }

    fn tell(&mut self, signal: Signal) {
        meter::count(&signal);
        let waker = match signal {
            Signal::Granted {
                ticket,
                deadline,
                fence,
            } => self
                .slots
                .get(&ticket)
                .and_then(|slot| slot.grant(deadline, fence)),
            Signal::Extended { ticket, deadline } => {
                if let Some(slot) = self.slots.get(&ticket) {
                    slot.extend(deadline);
                }
                None
            }
            Signal::Shared(ticket) => self.slots.get(&ticket).and_then(|slot| slot.share()),
            Signal::Lost(ticket) => self.slots.get(&ticket).and_then(|slot| {
                self.news.over.push(Arc::clone(slot));
                slot.lose()
            }),
            Signal::Failed(ticket, error) => {
                self.slots.remove(&ticket).and_then(|slot| slot.fail(error))
            }
            Signal::Apart(ticket) => self
                .slots
                .remove(&ticket)
                .and_then(|slot| slot.release(Removal::Unknown)),
            Signal::Released { ticket, removal } => self
                .slots
                .remove(&ticket)
                .and_then(|slot| slot.release(removal)),
            Signal::ShutDown(number, report) => {
                let reply = self.shutdowns.remove(&number);
                self.news.reports.extend(reply.map(|reply| (reply, report)));
                None
            }
        };
        self.news.wakers.extend(waker);
    }
}

/// Of requests that leave together the one whose caller is to look for the answers, and whether it is the only one that somebody waits
/// for.
///
/// The last release: who releases several locks waits for that first, while the next caller for one of them sleeps. Where nothing is
/// released, the first.
fn looked_for(requests: &[Request]) -> Option<(OpId, bool)> {
    let waited_for = || requests.iter().filter(|request| request.op.is_waited_for());
    let mut releases = waited_for().filter(|request| request.op.is_release());
    let chosen = releases.next_back().or_else(|| waited_for().next())?;
    Some((chosen.id, waited_for().nth(1).is_none()))
}

/// The store of an engine that has stopped.
struct Gone;

impl LockStore for Gone {
    fn submit(&mut self, _: &mut Vec<Request>) {}

    fn poll_event(&mut self, _: &mut Context<'_>) -> Poll<StoreEvent> {
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Op;
    use crate::token::{Nonce, Token};

    const TTL: Duration = Duration::from_secs(60);

    #[test]
    fn the_last_release_is_looked_for_or_else_the_first_request() {
        let request = |id, op| Request {
            id: OpId(id),
            op,
            patience: LONGEST_SLEEP,
        };
        let release = |id: u64| {
            let op = Op::Release {
                key: id.to_string().into(),
                token: Token::random(Nonce::new()),
                keep: None,
                makes_way: false,
                after: Vec::new(),
            };
            request(id, op)
        };
        let acquire = |id: u64| {
            let op = Op::Acquire {
                key: id.to_string().into(),
                token: Token::random(Nonce::new()),
                ttl: TTL,
                function: "",
                queue: true,
                spare: 0,
            };
            request(id, op)
        };
        let leave = |id| request(id, Op::Leave { key: "1".into() });
        let chosen = |requests: &[Request]| looked_for(requests).map(|(op, only)| (op.0, only));
        assert_eq!(chosen(&[release(1), acquire(2)]), Some((1, false)));
        assert_eq!(chosen(&[release(1), release(2)]), Some((2, false)));
        let several = [release(1), acquire(2), release(3)];
        assert_eq!(chosen(&several), Some((3, false)));
        assert_eq!(chosen(&[acquire(1), acquire(2)]), Some((1, false)));
        assert_eq!(chosen(&[leave(1), acquire(2)]), Some((2, true)));
        assert_eq!(chosen(&[leave(1)]), None);
    }
}
