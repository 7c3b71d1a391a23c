//! Batches of renewals whose keys are in both sessions.

use std::collections::HashMap;

use crate::base::clock::Instant;
use crate::store::split_renewals::{Fragment, SplitRenewals};
use crate::store::{Failure, Op, OpId, Renewal, Reply, Request};

/// Divides batches among the sessions, and joins the answers.
pub(super) struct Renewals {
    split: SplitRenewals,
    parts: HashMap<OpId, Fragment>,
    /// The last id that was given to a part. Parts have ids of their own, counted down from the
    /// highest number, which the engine's ids never reach.
    last_own_id: u64,
}

impl Renewals {
    pub(super) fn new() -> Self {
        Self {
            split: SplitRenewals::default(),
            parts: HashMap::new(),
            last_own_id: u64::MAX,
        }
    }

    /// A part for each session. `homes` has the session of each renewal, and both occur.
    pub(super) fn divide(
        &mut self,
        batch: &Request,
        homes: &[usize],
        now: Instant,
    ) -> [Request; 2] {
        let due = now + batch.patience;
        self.split.begin(batch.id, homes.len(), 2, due);
        [0, 1].map(|session| {
            let indexes = (0..homes.len()).filter(|index| homes[*index] == session);
            let indexes: Vec<_> = indexes.collect();
            self.last_own_id -= 1;
            let id = OpId(self.last_own_id);
            let request = Request {
                id,
                op: part(&batch.op, &indexes),
                patience: batch.patience,
            };
            let batch = batch.id;
            self.parts.insert(id, Fragment { batch, indexes });
            request
        })
    }

    /// Takes an answer. Returns what the engine is to be told, if it is to be told anything now.
    pub(super) fn answered(
        &mut self,
        id: OpId,
        result: Result<Reply, Failure>,
    ) -> Option<(OpId, Result<Reply, Failure>)> {
        match self.parts.remove(&id) {
            None => Some((id, result)),
            Some(part) => {
                let answer = self.split.answered(&part, result)?;
                Some((part.batch, answer))
            }
        }
    }

    /// The batches that are due, each answered with what is known of it: a session that is silent
    /// must not cost the leases of the other.
    pub(super) fn overdue(&mut self, now: Instant) -> Vec<(OpId, Result<Reply, Failure>)> {
        self.split.overdue(now)
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.split.next_due()
    }
}

fn part(op: &Op, indexes: &[usize]) -> Op {
    let of = |all: &[Renewal]| indexes.iter().map(|index| all[*index].clone()).collect();
    match op {
        Op::Renew(renewals) => Op::Renew(of(renewals)),
        Op::Stay(renewals) => Op::Stay(of(renewals)),
        other => other.clone(),
    }
}
