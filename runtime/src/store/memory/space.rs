//! The locks of `memory://`, which pools of one process can share by a name.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::entries::Entries;
use super::entry::PoolId;
use crate::base::clock::Clock;

/// The spaces that have a name, as long as they are used.
static NAMED: Mutex<BTreeMap<String, Arc<Space>>> = Mutex::new(BTreeMap::new());

/// The locks that some pools share. These pools exclude each other.
#[derive(Debug)]
pub(crate) struct Space {
    pub(super) clock: Clock,
    entries: Mutex<Entries>,
}

impl Space {
    /// A space that has no name.
    pub(super) fn new(clock: Clock) -> Arc<Self> {
        Arc::new(Self {
            clock,
            entries: Mutex::default(),
        })
    }

    /// The space that has this name in this process, with a further pool in it.
    ///
    /// The pool enters before the registry's mutex is given back. So a space is only forgotten
    /// while no pool can be on its way into it.
    pub(super) fn enter_named(name: &str) -> (Arc<Self>, PoolId) {
        let mut named = named();
        named.retain(|_, space| space.is_used());
        let space = named
            .entry(name.to_owned())
            .or_insert_with(|| Self::new(Clock::System));
        (Arc::clone(space), space.enter())
    }

    /// Opens a mailbox for a further pool.
    pub(super) fn enter(&self) -> PoolId {
        self.entries().open()
    }

    /// Forgets `pool`, which was closed. Its locks stay until their ttl is over.
    pub(super) fn leave(&self, pool: PoolId) {
        let now = self.clock.now();
        self.entries().forget(pool, now);
    }

    /// Whether a pool is in the space, or a lock that outlives its pool: one that `hold` keeps, or
    /// whose engine has stopped.
    fn is_used(&self) -> bool {
        let now = self.clock.now();
        self.entries().are_used(now)
    }

    pub(super) fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Forgets the space of this name if no pool is in it and it has no lock. A space with a lock is
/// forgotten by a later [`Space::enter_named`].
pub(super) fn forget_unused(name: &str) {
    let mut named = named();
    if named.get(name).is_some_and(|space| !space.is_used()) {
        named.remove(name);
    }
}

/// The mutex of a space is taken inside of this one, never the other way round.
fn named() -> MutexGuard<'static, BTreeMap<String, Arc<Space>>> {
    NAMED.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
pub(super) fn is_known(name: &str) -> bool {
    named().contains_key(name)
}
