//! Results that the store keeps for a key: answering calls with them, and removing them.
//!
//! Only the store knows whether a result is kept. So a call with `replay` always asks the store,
//! and never gets its lock by a hand-over. One answer serves all waiting `replay` calls of this
//! process with the same key and the same function.

use std::sync::Arc;

use super::Core;
use super::requests::Flight;
use super::signal::Signal;
use super::ticket::{Acquire, Ticket, TicketId};
use crate::base::clock::Instant;
use crate::base::full_key::FullKey;
use crate::base::seeded::seeded;
use crate::error::LockError;
use crate::store::kept::Kept;
use crate::store::{Failure, Op, Reply};

impl Core {
    /// Answers `id` with the result that the store keeps. Also answers the waiting `replay` calls
    /// with the same key and function: with the result, or with `Mismatch` if their fingerprint
    /// differs.
    pub(super) fn recalled(&mut self, id: TicketId, kept: &Arc<Kept>, now: Instant) {
        let Some(acquire) = self.tickets.get(id).map(Ticket::acquire) else {
            return;
        };
        let (key, function) = (acquire.key.clone(), acquire.function);
        let mut answered = vec![id];
        if let Some(queue) = self.queues.get_mut(&key) {
            let waits = |other: &TicketId| {
                let acquire = self.tickets.get(*other).map(Ticket::acquire);
                let asks = |acquire: &Acquire| {
                    let same = acquire.function == function || seeded!(self, AnswerForAllFunctions);
                    acquire.replay.is_some() && same
                };
                *other != id && acquire.is_some_and(asks)
            };
            answered.extend(queue.waiting().filter(waits));
            for id in &answered {
                queue.remove(*id);
            }
            queue.recalled(now);
        }
        for id in answered {
            self.answer_from(id, kept, now);
        }
    }

    /// Ends the ticket `id` of a `replay` call with the kept result, or with `Mismatch` if the
    /// fingerprints of the call and the result differ.
    fn answer_from(&mut self, id: TicketId, kept: &Arc<Kept>, now: Instant) {
        let Some(acquire) = self.tickets.get(id).map(Ticket::acquire) else {
            return;
        };
        let asked = acquire
            .replay
            .as_ref()
            .and_then(|replay| replay.fingerprint);
        if kept.answers(asked) || seeded!(self, FingerprintIgnored) {
            self.signal(Signal::Recalled(id, Arc::clone(kept)));
            self.leave(id, false, now);
        } else {
            let error = mismatch(acquire);
            self.fail(id, error, now);
        }
    }

    /// Removes the results kept for `key`. The answer is `Forgotten` with the same `number`.
    pub(crate) fn forget_result(&mut self, number: u64, key: FullKey) {
        let patience = self.limits.io_timeout;
        self.requests
            .send(Op::Forget { key }, patience, Flight::Forget(number));
    }

    pub(super) fn forget_replied(&mut self, number: u64, result: Result<Reply, Failure>) {
        let forgotten = result.map(|reply| reply == Reply::Forgotten(true));
        let forgotten = forgotten.map_err(|failure| failure.error);
        self.signal(Signal::Forgotten(number, forgotten));
    }
}

fn mismatch(acquire: &Acquire) -> LockError {
    LockError::Mismatch {
        key: acquire.key.name().to_owned(),
    }
}
