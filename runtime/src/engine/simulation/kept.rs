//! Checks that locks stay taken at the server for as long as `cooldown` and `min_hold` specify.

use std::time::Duration;

use super::server::on_server;
use super::world::{Caller, World};
use crate::base::clock::Instant;
use crate::base::full_key::FullKey;
use crate::engine::core::ticket::TicketId;

impl World {
    /// Picks the `min_hold` of the next call; none for most calls.
    pub(super) fn min_hold(&mut self) -> Option<Duration> {
        let stays = self.random.one_in(16);
        stays.then(|| self.random.millis(1, 600))
    }

    /// Starts the `min_hold` of a call when its body starts.
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

    /// Records the end of a body, and the time until which no other call may get its lock.
    /// `deadline` is the end of the lease.
    ///
    /// The request to keep the lock may be lost. Then the lock stays taken only until its lease
    /// ends, so nothing is checked after `deadline`.
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
        // `cooldown` does not apply to a share.
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
        // Ends the recorded unbroken use of the key, because a core need not leave a kept key free
        // for other clients. A new use begins after the kept time.
        let key = caller.key.clone();
        self.uses.remove(&(node, key));
        self.outcome.kept += 1;
    }

    /// Checks the grant of the key to a call. It is a violation if another call's lock on the key
    /// must still be kept.
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
