//! Whether a core leaves a key free for other clients when it has used it for long.

use super::world::{Caller, MAKE_WAY_AFTER, State, World};
use crate::base::clock::Instant;
use crate::engine::core::ticket::TicketId;
use crate::store::PAUSE;

/// How a core uses a key: for one call after the other.
#[derive(Debug)]
pub(super) struct Use {
    since: Instant,
    /// When the last call ended.
    ended: Option<Instant>,
}

impl World {
    /// A call has ended that had its lock alone.
    pub(super) fn use_ends(&mut self, node: usize, id: TicketId) {
        let now = self.now;
        if let Some(caller) = self.nodes[node].callers.get(&id)
            && let Some(known) = self.uses.get_mut(&(node, caller.key.clone()))
        {
            known.ended = Some(now);
        }
    }

    /// A call is granted its lock: not if those before it have had the key for so long that it was to be left free, and it was not.
    pub(super) fn check_use(&mut self, node: usize, id: TicketId) {
        let now = self.now;
        let Some(caller) = self.nodes[node].callers.get(&id) else {
            return;
        };
        let name = (node, caller.key.clone());
        // What processes use after each other is the server's to count.
        self.uses
            .retain(|(user, key), _| *user == node || *key != name.1);
        if caller.reads {
            self.uses.remove(&name);
            return;
        }
        let mut since = now;
        if let Some(before) = self.uses.get(&name)
            && let Some(ended) = before.ended
            && self.waited_since(node, id, ended)
        {
            let used = ended.since(before.since);
            if PAUSE <= now.since(ended) {
                self.outcome.ways += usize::from(MAKE_WAY_AFTER <= used);
            } else if MAKE_WAY_AFTER <= used {
                self.violation(format!("core {node} went on with a key after {used:?}"));
            } else {
                since = before.since;
            }
        }
        self.uses.insert(name, Use { since, ended: None });
    }

    /// Whether a call of the core has waited for the key of `id` all the time since before then.
    fn waited_since(&self, node: usize, id: TicketId, since: Instant) -> bool {
        let callers = &self.nodes[node].callers;
        let key = callers.get(&id).map(|caller| &caller.key);
        let waits = |caller: &Caller| {
            caller.state == State::Waiting && Some(&caller.key) == key && caller.arrived < since
        };
        callers.values().any(waits)
    }
}
