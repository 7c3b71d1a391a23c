//! Checks that a core leaves a key free for other clients after a long unbroken use.

use super::world::{Caller, MAKE_WAY_AFTER, State, World};
use crate::base::clock::Instant;
use crate::engine::core::queue::OFTEN;
use crate::engine::core::ticket::TicketId;
use crate::store::PAUSE;

/// Unbroken use of a key by calls of one core, one after the other.
#[derive(Debug)]
pub(super) struct Use {
    since: Instant,
    calls: u32,
    /// Time at which the last call ended.
    ended: Option<Instant>,
}

impl World {
    /// Records the end of a call, if it held the key exclusively.
    pub(super) fn use_ends(&mut self, node: usize, id: TicketId) {
        let now = self.now;
        if let Some(caller) = self.nodes[node].callers.get(&id)
            && !caller.reads
            && let Some(known) = self.uses.get_mut(&(node, caller.key.clone()))
        {
            known.ended = Some(now);
        }
    }

    /// Checks the grant of a lock. It is a violation if the core should have left the key free,
    /// because earlier calls used it for too long.
    pub(super) fn check_use(&mut self, node: usize, id: TicketId) {
        let now = self.now;
        let Some(caller) = self.nodes[node].callers.get(&id) else {
            return;
        };
        let name = (node, caller.key.clone());
        // A grant to this node ends the unbroken use by other nodes, because a core counts only the
        // use by its own process.
        self.uses
            .retain(|(user, key), _| *user == node || *key != name.1);
        if caller.reads {
            self.uses.remove(&name);
            return;
        }
        let (mut since, mut calls) = (now, 1);
        if let Some(before) = self.uses.get(&name)
            && let Some(ended) = before.ended
            && self.waited_since(node, id, ended)
        {
            let used = ended.since(before.since);
            let is_long = OFTEN <= before.calls && MAKE_WAY_AFTER <= used;
            if PAUSE <= now.since(ended) {
                self.outcome.ways += usize::from(is_long);
            } else if is_long {
                let calls = before.calls;
                self.violation(format!(
                    "core {node} went on with a key after {used:?} and {calls} calls"
                ));
            } else {
                (since, calls) = (before.since, before.calls + 1);
            }
        }
        let ended = None;
        self.uses.insert(
            name,
            Use {
                since,
                calls,
                ended,
            },
        );
    }

    /// True if a call of the core waits for the key of `id`, and arrived before `since`.
    fn waited_since(&self, node: usize, id: TicketId, since: Instant) -> bool {
        let callers = &self.nodes[node].callers;
        let key = callers.get(&id).map(|caller| &caller.key);
        let waits = |caller: &Caller| {
            caller.state == State::Waiting && Some(&caller.key) == key && caller.arrived < since
        };
        callers.values().any(waits)
    }
}
