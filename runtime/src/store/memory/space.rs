//! The locks of `memory://`, which pools of one process can share by a name.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::entries::Entries;
use super::entry::PoolId;
use crate::base::clock::Clock;

/// Registry of the named spaces that are in use.
static NAMED: Mutex<BTreeMap<String, Arc<Space>>> = Mutex::new(BTreeMap::new());

/// The locks that some pools share. These pools exclude each other.
#[derive(Debug)]
pub(crate) struct Space {
    pub(super) clock: Clock,
    entries: Mutex<Entries>,
}

impl Space {
    /// Returns a space without a name.
    pub(super) fn new(clock: Clock) -> Arc<Self> {
        Arc::new(Self {
            clock,
            entries: Mutex::default(),
        })
    }

    /// Returns the space of this name in this process, and the id of a new pool in it.
    ///
    /// The pool enters before the registry's mutex is released. Otherwise, another thread could
    /// remove the space from the registry before the pool enters it.
    pub(super) fn enter_named(name: &str) -> (Arc<Self>, PoolId) {
        let mut named = named();
        named.retain(|_, space| space.is_used());
        let space = named
            .entry(name.to_owned())
            .or_insert_with(|| Self::new(Clock::System));
        (Arc::clone(space), space.enter())
    }

    /// Adds a new pool, with a mailbox for its events. Returns the pool's id.
    pub(super) fn enter(&self) -> PoolId {
        self.entries().open()
    }

    /// Removes the closed `pool`. Its locks stay until their ttl is over.
    pub(super) fn leave(&self, pool: PoolId) {
        let now = self.clock.now();
        self.entries().forget(pool, now);
    }

    /// True if the space has a pool, a kept result, or a lock that outlives its pool. A lock
    /// outlives its pool if `cooldown` keeps it, or if the engine has stopped without releasing it.
    fn is_used(&self) -> bool {
        let now = self.clock.now();
        self.entries().are_used(now)
    }

    pub(super) fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes the space of this name from the registry if it is not used. If the space still has a
/// lock or a kept result, a later [`Space::enter_named`] removes the space after these have
/// expired.
pub(super) fn forget_unused(name: &str) {
    let mut named = named();
    if named.get(name).is_some_and(|space| !space.is_used()) {
        named.remove(name);
    }
}

/// Locks the registry's mutex. A thread may lock a space's mutex while it holds this one, but must
/// not lock this one while it holds a space's mutex.
fn named() -> MutexGuard<'static, BTreeMap<String, Arc<Space>>> {
    NAMED.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
pub(super) fn is_known(name: &str) -> bool {
    named().contains_key(name)
}
