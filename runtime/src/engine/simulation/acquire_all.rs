//! Simulated calls that take several locks, and their requests at the server.

use std::time::Duration;

use super::world::{Caller, Happening, IO_TIMEOUT, KEYS, State, World};
use crate::base::full_key::FullKey;
use crate::base::label::Label;
use crate::base::lease_terms::Terms;
use crate::base::token::Token;
use crate::engine::core::ticket::{Acquire, SiteId, TicketId, Watchdog};
use crate::store::{Reply, Take};

impl World {
    /// Starts a call that requests all keys of the simulation with one request.
    pub(super) fn call_for_all(&mut self, node: usize) {
        let ttl = Duration::from_millis([100, 500, 2_000][self.random.index(3)]);
        let terms = Terms::new(ttl).unwrap();
        let watchdog = self.random.one_in(2).then(|| Watchdog {
            interval: terms.interval(),
            max_hold: None,
        });
        let wait = match self.random.below(2) {
            0 => Duration::ZERO,
            _ => self.random.millis(1, 3_000),
        };
        let budget = if wait.is_zero() {
            IO_TIMEOUT
        } else {
            wait.min(IO_TIMEOUT)
        };
        let min_hold = self.min_hold();
        let first = self.nodes[node].next_ticket;
        self.nodes[node].next_ticket += KEYS;
        let mates: Vec<TicketId> = (first..first + KEYS).map(TicketId).collect();
        let mut acquires = Vec::new();
        for (number, id) in mates.iter().enumerate() {
            let key = FullKey::from(format!("key{number}"));
            let token = Token::fixed(u128::from(self.random.next()));
            let acquire = Acquire {
                key: key.clone(),
                token,
                function: "simulation",
                site: SiteId(1),
                label: Label::other(),
                terms,
                watchdog,
                wait: Duration::ZERO,
                cooldown: Duration::ZERO,
                share: None,
                min_hold,
                replay: None,
            };
            acquires.push((*id, acquire));
            let caller = Caller {
                key,
                token,
                budget_end: self.now + budget,
                ttl,
                reads: false,
                arrived: self.now,
                mates: mates.clone(),
                max_hold: None,
                give_up_at: None,
                min_hold,
                stays_until: None,
                kept_until: None,
                function: "simulation",
                replay: None,
                state: State::Waiting,
            };
            self.nodes[node].callers.insert(*id, caller);
        }
        self.nodes[node].core.acquire_all(acquires, wait, self.now);
        self.may_drop(node, mates);
    }

    /// Ends one call in six at a random time, even while it still waits for its locks.
    fn may_drop(&mut self, node: usize, mates: Vec<TicketId>) {
        if self.random.one_in(6) {
            let at = self.now + self.random.millis(0, 400);
            for id in mates {
                self.at(at, Happening::End(node, id));
            }
        }
    }

    /// Handles the grant of a ticket. Counts the call if it now has all its locks.
    pub(super) fn granted_with_others(&mut self, node: usize, ticket: TicketId) {
        let callers = &self.nodes[node].callers;
        let Some(caller) = callers.get(&ticket) else {
            return;
        };
        let inside = |id: &TicketId| matches!(callers[id].state, State::Inside(_));
        let all = !caller.mates.is_empty() && caller.mates.iter().all(inside);
        self.outcome.all_at_once += usize::from(all);
    }

    /// Handles the signal `Apart` for a ticket. The call gives up its other tickets. A real call
    /// would now request its locks individually.
    pub(super) fn answered_individually(&mut self, node: usize, ticket: TicketId) {
        self.outcome.individually += 1;
        if let Some(caller) = self.nodes[node].callers.get_mut(&ticket) {
            if caller.state == State::Waiting {
                caller.state = State::Over(self.now);
            } else if let State::Inside(_) = caller.state {
                self.violation(format!("{ticket:?} of core {node} was taken and apart"));
            }
        }
        self.roll_back(node, ticket);
    }

    /// Gives up all locks of a call that did not get every lock.
    pub(super) fn roll_back(&mut self, node: usize, ticket: TicketId) {
        let caller = self.nodes[node].callers.get(&ticket);
        let mates = caller.map(|caller| caller.mates.clone());
        for mate in mates.unwrap_or_default() {
            self.at(self.now, Happening::End(node, mate));
        }
    }

    /// Takes all keys at the server, or none if another token holds one of them.
    pub(super) fn serve_all(
        &mut self,
        node: usize,
        keys: &[(FullKey, Token)],
        ttl: Duration,
        function: &'static str,
    ) -> Reply {
        let now = self.now;
        for (at, (key, token)) in keys.iter().enumerate() {
            if self.live(key).is_none() {
                self.hand_over(key, Some(node));
            }
            if let Some(entry) = self.live(key)
                && entry.token() != Some(*token)
            {
                let left = Some(entry.expires.since(now));
                let owner = None;
                return Reply::HeldAmong { at, left, owner };
            }
        }
        let all = keys.iter().map(|(key, token)| {
            let take = Take::lock(key.clone(), *token, ttl, function);
            self.serve_acquire(node, &take, 0)
        });
        Reply::AcquiredAll(all.collect())
    }
}
