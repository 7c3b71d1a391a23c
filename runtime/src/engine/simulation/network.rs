//! The simulated network. It delays messages and cuts connections, but keeps the order of the
//! messages on each connection.

use std::time::Duration;

use super::world::{Caller, Happening, Message, State, World};
use crate::base::token::Token;
use crate::error::{LockError, StoreError};
use crate::store::{Failure, Give, Op, OpId, Reply, Request, Retry};

impl World {
    pub(super) fn send(&mut self, node: usize, request: Request) {
        let delay = self.delay();
        let now = self.now;
        let state = &mut self.nodes[node];
        if !state.connected {
            let failure = broken(false);
            let (generation, id) = (state.generation, request.id);
            state.open.insert(id, request);
            return self.at(now, Happening::Answer(node, generation, id, Err(failure)));
        }
        let at = (now + delay).max(state.to_server);
        state.to_server = at;
        state.open.insert(request.id, request.clone());
        if request.op.takes() {
            state.acquires.insert(request.id, state.generation);
        }
        let mut request = request;
        if let Op::Give(Give { after, .. }) = &mut request.op {
            // `after` lists the acquires that this release must follow. Those sent on this
            // connection are removed from it, because the server executes them before this release.
            // It may execute the others after this release.
            let generation = state.generation;
            after.retain(|open| state.acquires.get(open) != Some(&generation));
        }
        let generation = state.generation;
        self.at(at, Happening::Arrive(node, generation, request));
    }

    /// Returns a random delay, which is mostly short and sometimes long.
    pub(super) fn delay(&mut self) -> Duration {
        match self.random.below(30) {
            0 => self.random.millis(100, 2_500),
            1 | 2 => self.random.millis(5, 60),
            _ => self.random.millis(0, 2),
        }
    }

    pub(super) fn arrive(&mut self, node: usize, generation: u64, request: &Request) {
        let reply = self.serve(node, &request.op);
        let delay = self.delay();
        let now = self.now;
        let state = &mut self.nodes[node];
        if state.generation != generation {
            // The connection was cut. The server has carried the request out, but the answer is
            // lost.
            return;
        }
        let at = (now + delay).max(state.to_core);
        state.to_core = at;
        self.at(
            at,
            Happening::Answer(node, generation, request.id, Ok(reply)),
        );
    }

    /// Publishes a message to a process. Returns true if the process is connected, even if the
    /// message is lost.
    pub(super) fn publish(&mut self, node: usize, message: Message) -> bool {
        let delay = self.delay();
        let now = self.now;
        let lost = self.random.one_in(20);
        let state = &mut self.nodes[node];
        if !state.connected {
            return false;
        }
        if !lost {
            let at = (now + delay).max(state.to_core);
            state.to_core = at;
            let generation = state.generation;
            self.at(at, Happening::Delivered(node, generation, message));
        }
        true
    }

    pub(super) fn answer(
        &mut self,
        node: usize,
        generation: u64,
        op: OpId,
        result: Result<Reply, Failure>,
    ) {
        let now = self.now;
        let state = &mut self.nodes[node];
        if generation != state.generation {
            return;
        }
        let Some(request) = state.open.remove(&op) else {
            return;
        };
        let refused = refused_renewals(&request.op, &result);
        if let (Op::Take(take), Ok(Reply::Held { .. } | Reply::Recalled(_))) =
            (&request.op, &result)
        {
            self.uses.remove(&(node, take.key.clone()));
        }
        state.acquires.remove(&op);
        state.core.reply(op, result, now);
        self.drive(node);
        let inside = |caller: &Caller| {
            refused.contains(&caller.token) && matches!(caller.state, State::Inside(_))
        };
        if self.nodes[node].callers.values().any(inside) {
            self.violation(format!("core {node} received a loss and did not report it"));
        }
    }

    pub(super) fn cut(&mut self, node: usize) {
        self.outcome.cuts += 1;
        let now = self.now;
        let state = &mut self.nodes[node];
        state.generation += 1;
        state.connected = false;
        // The order is guaranteed only within a connection, so it begins again here. Requests sent
        // on the old connection still arrive, but later ones may overtake them.
        state.to_server = now;
        state.to_core = now;
        state.acquires.clear();
        for op in std::mem::take(&mut state.open).into_keys() {
            state.core.reply(op, Err(broken(true)), now);
        }
        let at = now + self.random.millis(1, 1_500);
        self.at(at, Happening::Connected(node));
    }
}

/// Returns the tokens of leases that the server refused to renew.
fn refused_renewals(op: &Op, result: &Result<Reply, Failure>) -> Vec<Token> {
    let (Op::Keep { renewals, .. }, Ok(Reply::Renewed(kept))) = (op, result) else {
        return Vec::new();
    };
    let refused = renewals.iter().zip(kept).filter(|(_, kept)| !**kept);
    refused.map(|(renewal, _)| renewal.token).collect()
}

fn broken(executed: bool) -> Failure {
    Failure {
        error: LockError::Unavailable {
            source: StoreError::new("io", "simulated"),
        },
        retry: Retry::Later,
        executed,
    }
}
