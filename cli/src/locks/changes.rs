//! Finds the locks that have changed since they were last read.

use std::collections::BTreeMap;

use leasehold::{LockInfo, LockState, Owner};

/// The locks as they were last read. Keeps only the fields whose change is reported. The remaining
/// time of a lease is left out, because it changes all the time.
#[derive(Debug, Default)]
pub(super) struct Changes(BTreeMap<String, Known>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Known {
    state: LockState,
    holders: Vec<Held>,
    waiting: Vec<Option<Owner>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Held {
    owner: Option<Owner>,
    fence: Option<u64>,
    foreign: bool,
    revoked: bool,
}

impl Known {
    fn new(lock: &LockInfo) -> Self {
        let holders = lock.holders.iter().map(|holder| Held {
            owner: holder.owner.clone(),
            fence: holder.fence.map(leasehold::Fence::get),
            foreign: holder.foreign,
            revoked: holder.revoked,
        });
        let waiting = lock.waiting.iter().map(|waiter| waiter.owner.clone());
        Self {
            state: lock.state,
            holders: holders.collect(),
            waiting: waiting.collect(),
        }
    }
}

impl Changes {
    /// Returns the new or changed locks among `locks`, and the keys of the locks that are gone.
    pub(super) fn look<'a>(&mut self, locks: &'a [LockInfo]) -> (Vec<&'a LockInfo>, Vec<String>) {
        let mut before = std::mem::take(&mut self.0);
        let mut changed = Vec::new();
        for lock in locks {
            let known = Known::new(lock);
            if before.remove(&lock.key).as_ref() != Some(&known) {
                changed.push(lock);
            }
            self.0.insert(lock.key.clone(), known);
        }
        (changed, before.into_keys().collect())
    }
}
