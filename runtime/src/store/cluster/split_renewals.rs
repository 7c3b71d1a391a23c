//! Splits batches of renewals by slot, and joins the answers.

use std::collections::{BTreeSet, HashMap};

use crate::base::clock::Instant;
use crate::base::seeded::seeded;
use crate::store::{Failure, OpId, Reply};

/// The part of a split batch that one request renews.
#[derive(Debug, Clone)]
pub(super) struct Fragment {
    pub(super) batch: OpId,
    pub(super) indexes: Vec<usize>,
}

struct SplitBatch {
    kept: Vec<Option<bool>>,
    /// Number of fragments without an answer.
    open: usize,
    failure: Option<Failure>,
    due: Instant,
}

/// All pending split batches.
#[derive(Default)]
pub(super) struct SplitRenewals {
    open: HashMap<OpId, SplitBatch>,
    deadlines: BTreeSet<(Instant, OpId)>,
}

impl SplitRenewals {
    /// Begins a batch of `keys` keys in `fragments` fragments. At `due`, the batch is answered with
    /// the outcomes known so far. Without this limit, a silent node would hold back the outcomes
    /// from all other nodes, and their leases would end.
    pub(super) fn begin(&mut self, id: OpId, keys: usize, fragments: usize, due: Instant) {
        let batch = SplitBatch {
            kept: vec![None; keys],
            open: fragments,
            failure: None,
            due,
        };
        self.open.insert(id, batch);
        self.deadlines.insert((due, id));
    }

    /// Updates the number of fragments after `fragment` was split into one request for each key.
    pub(super) fn split(&mut self, fragment: &Fragment) {
        if let Some(batch) = self.open.get_mut(&fragment.batch) {
            batch.open += fragment.indexes.len() - 1;
        }
    }

    /// Records the answer to a fragment. If all fragments now have answers, returns the answer to
    /// the batch.
    pub(super) fn answered(
        &mut self,
        fragment: &Fragment,
        result: Result<Reply, Failure>,
    ) -> Option<Result<Reply, Failure>> {
        // The batch is missing if `overdue` has answered it before this answer arrived.
        let batch = self.open.get_mut(&fragment.batch)?;
        batch.open -= 1;
        match result {
            Ok(Reply::Renewed(kept)) => {
                for (index, kept) in fragment.indexes.iter().zip(kept) {
                    let index = if seeded!(AnswersMixed) {
                        (index + 1) % batch.kept.len()
                    } else {
                        *index
                    };
                    batch.kept[index] = Some(kept);
                }
            }
            Ok(Reply::RenewedInPart(kept)) => {
                for (index, kept) in fragment.indexes.iter().zip(kept) {
                    batch.kept[*index] = kept;
                }
            }
            Ok(_) => {}
            Err(failure) => batch.failure = Some(failure),
        }
        let done = batch.open == 0;
        done.then(|| self.close(fragment.batch))?
    }

    /// Closes the batches whose time is up, and answers each with the outcomes known so far.
    pub(super) fn overdue(&mut self, now: Instant) -> Vec<(OpId, Result<Reply, Failure>)> {
        let ids = self.deadlines.iter().take_while(|(due, _)| *due <= now);
        let ids: Vec<_> = ids.map(|(_, id)| *id).collect();
        let closed = ids.into_iter().map(|id| (id, self.close(id)));
        closed
            .filter_map(|(id, answer)| Some((id, answer?)))
            .collect()
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.deadlines.first().map(|(due, _)| *due)
    }

    fn close(&mut self, id: OpId) -> Option<Result<Reply, Failure>> {
        let SplitBatch {
            kept, failure, due, ..
        } = self.open.remove(&id)?;
        self.deadlines.remove(&(due, id));
        let all: Option<Vec<bool>> = if seeded!(SilenceIsKept) {
            Some(kept.iter().map(|kept| kept.unwrap_or(true)).collect())
        } else {
            kept.iter().copied().collect()
        };
        Some(match (all, failure) {
            (Some(all), _) => Ok(Reply::Renewed(all)),
            (None, Some(failure)) if kept.iter().all(Option::is_none) => Err(failure),
            (None, _) => Ok(Reply::RenewedInPart(kept)),
        })
    }
}
