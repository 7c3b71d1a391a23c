//! Renewals that were split by slot, and the answer put together again.

use std::collections::{BTreeSet, HashMap};

use crate::base::clock::Instant;
use crate::base::seeded::seeded;
use crate::store::{Failure, OpId, Reply};

/// A part of a batch of renewals: which of its keys.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub(super) whole: OpId,
    pub(super) places: Vec<usize>,
}

struct Whole {
    kept: Vec<Option<bool>>,
    /// So many parts are not answered yet.
    open: usize,
    failure: Option<Failure>,
    due: Instant,
}

/// All batches under way.
#[derive(Default)]
pub(super) struct Wholes {
    open: HashMap<OpId, Whole>,
    deadlines: BTreeSet<(Instant, OpId)>,
}

impl Wholes {
    /// A batch of so many keys goes out in so many parts. At `due` it is answered with what is known then: a node that is silent must
    /// not cost the leases on the others.
    pub(super) fn begin(&mut self, id: OpId, keys: usize, parts: usize, due: Instant) {
        let whole = Whole {
            kept: vec![None; keys],
            open: parts,
            failure: None,
            due,
        };
        self.open.insert(id, whole);
        self.deadlines.insert((due, id));
    }

    /// A part goes out again, key by key.
    pub(super) fn split(&mut self, part: &Part) {
        if let Some(whole) = self.open.get_mut(&part.whole) {
            whole.open += part.places.len() - 1;
        }
    }

    /// A part was answered; the answer to the whole, if it was the last.
    pub(super) fn answered(
        &mut self,
        part: &Part,
        result: Result<Reply, Failure>,
    ) -> Option<Result<Reply, Failure>> {
        // Missing if it was answered in part because this came late.
        let whole = self.open.get_mut(&part.whole)?;
        whole.open -= 1;
        match result {
            Ok(Reply::Renewed(kept)) => {
                for (place, kept) in part.places.iter().zip(kept) {
                    let place = if seeded!(PlacesMixed) {
                        (place + 1) % whole.kept.len()
                    } else {
                        *place
                    };
                    whole.kept[place] = Some(kept);
                }
            }
            Ok(Reply::RenewedInPart(kept)) => {
                for (place, kept) in part.places.iter().zip(kept) {
                    whole.kept[*place] = kept;
                }
            }
            Ok(_) => {}
            Err(failure) => whole.failure = Some(failure),
        }
        let done = whole.open == 0;
        done.then(|| self.close(part.whole))?
    }

    /// The batches whose time is over, with what is known of them.
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
        let Whole {
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
