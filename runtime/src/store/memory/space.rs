//! The locks of `memory://`, which pools of one process can share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::entries::Entries;
use crate::base::clock::Clock;

/// One process's locks of one name. Pools that share the name exclude each other.
#[derive(Debug)]
pub(crate) struct Space {
    pub(super) clock: Clock,
    entries: Mutex<Entries>,
}

impl Space {
    /// A space that nobody else sees.
    pub(crate) fn private(clock: Clock) -> Arc<Self> {
        Arc::new(Self {
            clock,
            entries: Mutex::default(),
        })
    }

    /// The space that all pools of this process with this URL share.
    pub(crate) fn shared(name: &str) -> Arc<Self> {
        static SPACES: Mutex<Option<HashMap<String, Arc<Space>>>> = Mutex::new(None);
        let mut spaces = SPACES.lock().unwrap_or_else(PoisonError::into_inner);
        let space = spaces
            .get_or_insert_default()
            .entry(name.to_owned())
            .or_insert_with(|| Self::private(Clock::System));
        Arc::clone(space)
    }

    pub(super) fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
