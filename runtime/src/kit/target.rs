//! What a pool of a kit connects to: the store, and a line to it.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

use super::line::Line;
use super::store::KitStore;
use crate::base::clock::Clock;
use crate::check_report::CheckReport;
#[cfg(feature = "__remote")]
use crate::error::LockError;
use crate::store::Connecting;
use crate::store::memory::MemoryStore;
use crate::store::options::Options;
#[cfg(feature = "__remote")]
use crate::store::source::{Source, no_server};
use crate::store::target::{Checking, OtherTarget, Target};

/// What a pool of a kit connects to.
#[derive(Clone)]
pub(super) struct KitTarget {
    pub(super) store: SharedStore,
    pub(super) line: Arc<Line>,
}

/// The store that all pools of a kit have in common.
#[derive(Clone)]
pub(super) enum SharedStore {
    /// In memory, counted on the clock of the test's runtime.
    Memory {
        store: Arc<MemoryStore>,
        clock: Clock,
    },
    /// On a server.
    Server(Box<Target>),
}

impl SharedStore {
    /// The clock of all its pools.
    pub(super) fn clock(&self) -> Clock {
        match self {
            Self::Memory { clock, .. } => *clock,
            Self::Server(_) => Clock::System,
        }
    }
}

/// What changes in it is behind mutexes. The compiler does not know that of the certificates in a
/// target.
impl UnwindSafe for KitTarget {}
impl RefUnwindSafe for KitTarget {}

impl OtherTarget for KitTarget {
    fn has_other_clients(&self) -> bool {
        match &self.store {
            SharedStore::Memory { .. } => false,
            SharedStore::Server(target) => target.has_other_clients(),
        }
    }

    fn clock(&self) -> Clock {
        self.store.clock()
    }

    fn connect(&self, options: Options) -> Connecting {
        let Self { store, line } = self.clone();
        Box::pin(async move {
            let clock = store.clock();
            let inner = match store {
                SharedStore::Memory { store, .. } => Box::new(store.beside()),
                SharedStore::Server(target) => target.connect(options).await?,
            };
            Ok(Box::new(KitStore::new(inner, line, clock)) as _)
        })
    }

    fn check(&self, options: Options) -> Checking {
        let (shown, store) = (self.to_string(), self.store.clone());
        Box::pin(async move {
            match store {
                SharedStore::Memory { .. } => Ok(CheckReport::new(shown, Vec::new())),
                SharedStore::Server(target) => target.check(options).await,
            }
        })
    }

    #[cfg(feature = "__remote")]
    fn source(&self, options: Options) -> Result<Box<dyn Source>, LockError> {
        match &self.store {
            SharedStore::Memory { .. } => Err(no_server()),
            SharedStore::Server(target) => target.clone().source(options),
        }
    }
}

impl fmt::Display for KitTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.store {
            SharedStore::Memory { .. } => f.write_str("memory:// of a test kit"),
            SharedStore::Server(target) => target.fmt(f),
        }
    }
}
