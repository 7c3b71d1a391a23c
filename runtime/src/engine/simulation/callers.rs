//! Simulated callers. They arrive, wait, work inside their locks and leave at any time.

use std::time::Duration;

use super::world::{Caller, Happening, IO_TIMEOUT, KEYS, Node, State, World};
use crate::base::clock::Instant;
use crate::base::full_key::FullKey;
use crate::base::label::Label;
use crate::base::lease_terms::Terms;
use crate::base::token::Token;
use crate::engine::core::signal::Signal;
use crate::engine::core::ticket::{Acquire, Share, SiteId, TicketId, Watchdog};
use crate::error::LockError;
use crate::fence::Fence;

impl World {
    pub(super) fn call(&mut self, node: usize) {
        if !self.is_hot && self.random.one_in(6) {
            return self.call_for_all(node);
        }
        // Only three different ttls, so that hand-overs occur: a call hands a lock over only to a
        // call with the same ttl.
        let ttl = if self.is_hot {
            2_000
        } else {
            [100, 500, 2_000][self.random.index(3)]
        };
        let ttl = Duration::from_millis(ttl);
        let terms = Terms::new(ttl).unwrap();
        let max_hold = self.random.one_in(8).then(|| ttl * 2);
        let watchdog = self.random.one_in(2).then(|| Watchdog {
            interval: terms.interval(),
            max_hold,
        });
        let wait = match self.random.below(3) {
            0 => Duration::ZERO,
            _ => self.random.millis(1, 3_000),
        };
        let keys = if self.is_hot { 1 } else { KEYS };
        let key = FullKey::from(format!("key{}", self.random.below(keys)));
        let reads = !self.is_hot && self.random.one_in(4);
        let min_hold = self.min_hold();
        let replay = self.replay().filter(|_| !reads);
        let function = self.function(replay);
        let token = Token::fixed(u128::from(self.random.next()));
        let acquire = Acquire {
            key,
            token,
            function,
            site: SiteId(1),
            label: Label::other(),
            terms,
            watchdog,
            wait,
            cooldown: Duration::ZERO,
            share: reads.then_some(Share::Reader),
            min_hold,
            replay: replay.map(Box::new),
        };
        self.begin(node, acquire);
    }

    /// Lets a caller request a lock. One caller in six ends at a random time, even while it still
    /// waits.
    fn begin(&mut self, node: usize, acquire: Acquire) {
        let node_state = &mut self.nodes[node];
        let id = TicketId(node_state.next_ticket);
        node_state.next_ticket += 1;
        let wait = acquire.wait;
        let budget = if wait.is_zero() { IO_TIMEOUT } else { wait };
        let caller = Caller {
            key: acquire.key.clone(),
            token: acquire.token,
            budget_end: self.now + budget,
            ttl: acquire.terms.ttl(),
            reads: acquire.share.is_some(),
            arrived: self.now,
            mates: Vec::new(),
            max_hold: acquire.watchdog.and_then(|dog| dog.max_hold),
            give_up_at: None,
            min_hold: acquire.min_hold,
            stays_until: None,
            kept_until: None,
            function: acquire.function,
            replay: acquire.replay.as_deref().copied(),
            state: State::Waiting,
        };
        node_state.callers.insert(id, caller);
        node_state.core.acquire(id, acquire, self.now);
        if self.random.one_in(6) {
            // The call gives up waiting, or ends its work early.
            let at = self.now + self.random.millis(0, 400);
            self.at(at, Happening::End(node, id));
        }
    }

    pub(super) fn end(&mut self, node: usize, id: TicketId) {
        let now = self.now;
        let awaited = self.random.one_in(2);
        let keep = self.random.one_in(8);
        let keep = keep.then(|| self.random.millis(1, 600));
        let replay = self.nodes[node].callers.get(&id);
        let replay = replay.and_then(|caller| Some((caller.replay?, caller.function)));
        let record = replay.map(|(replay, function)| self.new_record(replay, function));
        let Node { core, callers, .. } = &mut self.nodes[node];
        let Some(caller) = callers.get_mut(&id) else {
            return;
        };
        match caller.state {
            State::Over(_) => {}
            State::Inside(deadline) if awaited => {
                caller.state = State::Over(now);
                match record {
                    // A call that has become a reader keeps no result, because other readers may
                    // run at the same time.
                    Some(record) if !caller.reads => core.release_with(id, keep, record, now),
                    _ => core.release(id, keep, now),
                }
                self.use_ends(node, id);
                self.note_kept(node, id, keep, deadline);
            }
            State::Inside(deadline) => {
                caller.state = State::Over(now);
                core.abandon(id, now);
                self.use_ends(node, id);
                self.note_kept(node, id, None, deadline);
            }
            State::Waiting => {
                caller.state = State::Over(now);
                core.abandon(id, now);
            }
        }
    }

    pub(super) fn downgrade(&mut self, node: usize, id: TicketId) {
        let Node { core, callers, .. } = &mut self.nodes[node];
        if let Some(caller) = callers.get_mut(&id)
            && let State::Inside(_) = caller.state
        {
            // Readers may now run at the same time as this caller.
            caller.reads = true;
            let key = caller.key.clone();
            core.downgrade(id, self.now);
            self.uses.remove(&(node, key));
        }
    }

    pub(super) fn signalled(&mut self, node: usize, signal: Signal) {
        let now = self.now;
        match signal {
            Signal::Granted {
                ticket,
                deadline,
                fence,
            } => {
                self.check_use(node, ticket);
                self.granted(node, ticket, deadline);
                self.granted_with_others(node, ticket);
                self.check_fence(node, ticket, fence);
                self.check_max_hold(node, ticket, deadline);
            }
            Signal::Extended { ticket, deadline } => {
                self.check_max_hold(node, ticket, deadline);
                if let Some(caller) = self.nodes[node].callers.get_mut(&ticket)
                    && let State::Inside(before) = &mut caller.state
                {
                    *before = deadline.max(*before);
                }
            }
            Signal::Lost(ticket) => {
                self.outcome.lost += 1;
                if let Some(caller) = self.nodes[node].callers.get_mut(&ticket)
                    && let State::Inside(deadline) = caller.state
                {
                    // Abandons the call. In the real code, the body is dropped, and the dropped
                    // `PendingLock` notifies the engine.
                    caller.state = State::Over(now);
                    let key = caller.key.clone();
                    self.nodes[node].core.abandon(ticket, now);
                    self.uses.remove(&(node, key));
                    self.note_kept(node, ticket, None, deadline);
                    self.at(now, Happening::Tick(node));
                }
            }
            Signal::Failed(ticket, error) => {
                self.outcome.refused += 1;
                self.failed(node, ticket, &error);
                self.roll_back(node, ticket);
            }
            Signal::Apart(ticket) => self.answered_individually(node, ticket),
            Signal::Shared(_) => self.outcome.downgraded += 1,
            Signal::Recalled(ticket, kept) => self.recalled_result(node, ticket, &kept),
            Signal::Inherited { ticket, .. } => self.inherited(node, ticket),
            Signal::Settled(..)
            | Signal::TakenAway(_)
            | Signal::Forgotten(..)
            | Signal::Released { .. }
            | Signal::ShutDown(..) => {}
        }
    }

    pub(super) fn granted(&mut self, node: usize, ticket: TicketId, deadline: Instant) {
        self.outcome.granted += 1;
        let now = self.now;
        let length = match self.random.below(3) {
            _ if self.is_hot => self.random.millis(20, 80),
            0 => self.random.millis(0, 1_500),
            // Most bodies are short, so that several calls follow each other within one lease.
            _ => self.random.millis(0, 40),
        };
        let token = self.nodes[node].core.token_of(ticket);
        let (Some(caller), Some(token)) = (self.nodes[node].callers.get_mut(&ticket), token) else {
            return self.violation(format!(
                "core {node} granted {ticket:?}, which no caller asked for"
            ));
        };
        if caller.state != State::Waiting {
            return;
        }
        caller.state = State::Inside(deadline);
        caller.give_up_at = caller.max_hold.map(|limit| now + limit);
        let downgrades = !self.is_hot && !caller.reads && self.random.one_in(6);
        // After a hand-over, the lock still has the token of an earlier call.
        self.outcome.handed_over += usize::from(caller.token != token);
        caller.token = token;
        let (key, reads) = (caller.key.clone(), caller.reads);
        self.keep_min_hold(node, ticket);
        // Skips the check if an operator has deleted this lock, because another call may then have
        // the key.
        if !self.stolen.contains(&token) {
            self.check_kept(&key, reads);
        }
        self.at(now + length, Happening::End(node, ticket));
        if downgrades {
            self.at(now + length / 2, Happening::Downgrade(node, ticket));
        }
        let inside = |caller: &&Caller| {
            caller.key == key
                && !self.stolen.contains(&caller.token)
                && matches!(caller.state, State::Inside(end) if now < end)
        };
        let holders = || {
            let callers = self.nodes.iter().flat_map(|node| node.callers.values());
            callers.filter(inside)
        };
        let (count, readers) = (
            holders().count(),
            holders().filter(|holder| holder.reads).count(),
        );
        self.outcome.shared += usize::from(reads && readers > 1);
        if count > 1 && readers < count {
            self.violation(format!(
                "{count} bodies run inside {key}, {readers} of them readers"
            ));
        }
    }

    /// Checks that the lease does not last longer than the `max_hold` of its call.
    fn check_max_hold(&mut self, node: usize, ticket: TicketId, deadline: Instant) {
        let caller = self.nodes[node].callers.get(&ticket);
        let limit = caller.and_then(|caller| caller.give_up_at);
        if limit.is_some_and(|limit| limit < deadline) {
            self.violation(format!(
                "{ticket:?} of core {node} was to be given up at {limit:?} and lasts until {deadline:?}"
            ));
        }
    }

    /// Checks that the holder's fence is greater than the fences of all earlier holders of the key.
    fn check_fence(&mut self, node: usize, ticket: TicketId, fence: Option<Fence>) {
        let Some(caller) = self.nodes[node].callers.get(&ticket) else {
            return;
        };
        let unordered = caller.reads || self.stolen.contains(&caller.token);
        let key = caller.key.clone();
        let Some(fence) = fence else {
            return self.violation(format!("{key} was given without a fence"));
        };
        if unordered {
            return;
        }
        let before = self.granted.insert(key.clone(), fence);
        if Some(fence) <= before {
            self.violation(format!("{key} was given with {fence:?} after {before:?}"));
        }
    }

    pub(super) fn failed(&mut self, node: usize, ticket: TicketId, error: &LockError) {
        let now = self.now;
        let paused = self.nodes[node].paused_until;
        let Some(caller) = self.nodes[node].callers.get_mut(&ticket) else {
            return;
        };
        let late = now.since(caller.budget_end.max(paused));
        let fate = (
            caller.state == State::Waiting,
            late > Duration::from_millis(20),
        );
        caller.state = State::Over(now);
        match fate {
            (true, true) => self.violation(format!(
                "{ticket:?} of core {node} was refused {late:?} too late: {error}"
            )),
            (false, _) => self.violation(format!(
                "{ticket:?} of core {node} was answered twice: {error}"
            )),
            _ => {}
        }
    }
}
