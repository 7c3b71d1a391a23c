//! Checks that a lock stays at the server for as long as `cooldown` and `min_hold` specify.

use std::time::Duration;

use super::server::on_server;
use super::world::{Caller, World};
use crate::base::clock::Instant;
use crate::base::full_key::FullKey;
use crate::engine::core::ticket::TicketId;

impl World {
    /// Picks the time for which the next call's lock must stay; none for most calls.
    pub(super) fn min_hold(&mut self) -> Option<Duration> {
        let stays = self.random.one_in(16);
        stays.then(|| self.random.millis(1, 600))
    }

    /// Begins a body, and with it the time for which its lock must stay.
    pub(super) fn keep_min_hold(&mut self, node: usize, id: TicketId) {
        let state = &mut self.nodes[node];
        if let Some(caller) = state.callers.get_mut(&id)
            && let Some(min_hold) = caller.min_hold
        {
            let until = self.now + min_hold;
            caller.stays_until = Some(until);
            state.core.keep_until(id, until);
        }
    }

    /// Ends a body, with `deadline` as the end of its lease. Records the time until which no other
    /// call may get its lock.
    ///
    /// The request to keep the lock may be lost. Then the lock stays for as long as its lease.
    pub(super) fn note_kept(
        &mut self,
        node: usize,
        id: TicketId,
        cooldown: Option<Duration>,
        deadline: Instant,
    ) {
        let now = self.now;
        let Some(caller) = self.nodes[node].callers.get_mut(&id) else {
            return;
        };
        // A share is not kept by `cooldown`.
        let cooldown = cooldown
            .filter(|_| !caller.reads)
            .map(|cooldown| now + cooldown);
        let Some(until) = caller
            .stays_until
            .max(cooldown)
            .filter(|until| now < *until)
        else {
            return;
        };
        caller.kept_until = Some((now + on_server(until.since(now))).min(deadline));
        // A core does not leave a key free for other clients while the key is kept. Its use of the
        // key begins again after that time.
        let key = caller.key.clone();
        self.uses.remove(&(node, key));
        self.outcome.kept += 1;
    }

    /// Checks that no other call's lock on the key is kept when a call gets it.
    pub(super) fn check_kept(&mut self, key: &FullKey, to_reader: bool) {
        let now = self.now;
        let keeps = |caller: &&Caller| {
            caller.key == *key
                && caller.kept_until.is_some_and(|until| now < until)
                && !(to_reader && caller.reads)
                && !self.stolen.contains(&caller.token)
        };
        let mut callers = self.nodes.iter().flat_map(|node| node.callers.values());
        if let Some(caller) = callers.find(keeps) {
            let until = caller.kept_until;
            self.violation(format!(
                "{key} was to stay until {until:?} and was given away"
            ));
        }
    }
}
