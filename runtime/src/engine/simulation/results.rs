//! Results that the server keeps for `replay` calls. Also checks that no body runs if a kept result
//! should have answered its call.

use std::sync::Arc;
use std::time::Duration;

use super::server::on_server;
use super::world::{Caller, State, World};
use crate::base::clock::Instant;
use crate::base::full_key::FullKey;
use crate::base::token::Token;
use crate::engine::core::ticket::{Replay, TicketId};
use crate::store::kept::{Fingerprint, Kept, Record};
use crate::store::{Reply, Take};

impl World {
    /// Picks the `replay` parameters of the next call. In one run of five, about half of the calls
    /// replay; in the other runs, none does.
    pub(super) fn replay(&mut self) -> Option<Replay> {
        let replays = self.replays && self.random.one_in(2);
        replays.then(|| {
            let number = u8::from(self.random.one_in(8));
            let fingerprint = (!self.random.one_in(4)).then_some(Fingerprint([number; 32]));
            Replay { fingerprint }
        })
    }

    /// Picks the function that makes the next call. The server keeps results separately for each
    /// function.
    pub(super) fn function(&mut self, replay: Option<Replay>) -> &'static str {
        match replay {
            Some(_) if self.random.one_in(4) => "another",
            _ => "simulation",
        }
    }

    /// Creates the result that the release of a `replay` call stores.
    pub(super) fn new_record(&mut self, replay: Replay, function: &'static str) -> Arc<Record> {
        self.last_result += 1;
        let kept = Kept {
            fingerprint: replay.fingerprint,
            json: self.last_result.to_string().into(),
        };
        Arc::new(Record {
            function,
            kept: Arc::new(kept),
            stays: self.random.millis(1, 2_000),
        })
    }

    pub(super) fn serve_recall(&mut self, node: usize, take: &Take) -> Reply {
        if let Some((kept, _)) = self.kept_result(&take.key, take.function) {
            return Reply::Recalled(Arc::clone(kept));
        }
        self.give_turn(node, &take.key);
        self.serve_acquire(node, take, 0)
    }

    /// Stores a result with a release. It is a violation if the key already has a result of the
    /// same function, because that result should have answered the call.
    pub(super) fn serve_record(
        &mut self,
        key: &FullKey,
        token: Token,
        keep: Option<Duration>,
        record: &Record,
    ) -> bool {
        let found = self.serve_release(key, token, keep);
        if found {
            if let Some((earlier, _)) = self.kept_result(key, record.function) {
                let earlier = earlier.json.clone();
                self.violation(format!(
                    "{key} has the result {earlier}, and another body ran to {}",
                    record.kept.json
                ));
            }
            let until = self.now + on_server(record.stays);
            let result = (Arc::clone(&record.kept), until);
            self.results.insert((key.clone(), record.function), result);
            self.outcome.recorded += 1;
        }
        found
    }

    fn kept_result(&self, key: &FullKey, function: &'static str) -> Option<&(Arc<Kept>, Instant)> {
        let result = self.results.get(&(key.clone(), function));
        result.filter(|(_, until)| self.now < *until)
    }

    /// Checks a hand-over inside a core. A `replay` call must not get its lock this way, because
    /// the server may have a kept result for it.
    pub(super) fn inherited(&mut self, node: usize, id: TicketId) {
        let caller = self.nodes[node].callers.get(&id);
        if caller.is_some_and(|caller| caller.replay.is_some()) {
            self.violation(format!(
                "core {node} handed a lock to {id:?}, which asks for a result"
            ));
        }
    }

    fn is_of_another_function(&self, of: &(FullKey, &'static str), kept: &Kept) -> bool {
        let is_kept = |(other, (known, _)): (&(FullKey, &'static str), &(Arc<Kept>, Instant))| {
            other != of && known.json == kept.json
        };
        self.results.iter().any(is_kept)
    }

    /// Removes the results kept for `key`. Returns true if there were any.
    pub(super) fn serve_forget(&mut self, key: &FullKey) -> bool {
        let before = self.results.len();
        self.results.retain(|(of, _), _| of != key);
        self.results.len() < before
    }

    /// Checks the result that a call got. It must come from the same function and fit the call's
    /// fingerprint.
    pub(super) fn recalled_result(&mut self, node: usize, id: TicketId, kept: &Kept) {
        let now = self.now;
        let Some(caller) = self.nodes[node].callers.get_mut(&id) else {
            return;
        };
        if caller.state != State::Waiting {
            return;
        }
        caller.state = State::Over(now);
        let Caller {
            key,
            function,
            replay,
            ..
        } = caller;
        let wrong = match replay {
            Some(replay) => !kept.answers(replay.fingerprint),
            None => true,
        };
        let of = (key.clone(), *function);
        self.outcome.recalled += 1;
        // A result older than the stored one is not wrong: it may have been replaced while the
        // answer was under way. Later results have greater numbers.
        let number = |kept: &Kept| kept.json.parse::<u64>().ok();
        let known = self.results.get(&of).and_then(|(known, _)| number(known));
        let stale = known < number(kept) || self.is_of_another_function(&of, kept);
        let key = of.0;
        if wrong || stale {
            self.violation(format!(
                "{id:?} of core {node} was notified the result {} of {key}, which is not its own",
                kept.json
            ));
        }
    }
}
