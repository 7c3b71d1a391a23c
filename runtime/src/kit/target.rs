//! The connection target of a kit's pool: the store, and the line (a simulated connection) to this
//! store.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use super::line::Line;
use super::store::{KitStore, cut};
use crate::base::clock::Clock;
use crate::check_report::CheckReport;
use crate::error::LockError;
use crate::store::Connecting;
use crate::store::backend::{Backend, Checking, Target};
use crate::store::memory::MemoryStore;
use crate::store::options::Options;
use crate::store::source::{Source, no_server};

/// Target that a pool of a kit connects to.
#[derive(Clone)]
pub(super) struct KitTarget {
    pub(super) store: SharedStore,
    pub(super) line: Arc<Line>,
}

/// Store that all pools of a kit share.
#[derive(Clone)]
pub(super) enum SharedStore {
    /// In memory. The leases are counted on the clock of the test's tokio runtime.
    Memory {
        store: Arc<MemoryStore>,
        clock: Clock,
    },
    /// On a server.
    Server(Target),
}

impl SharedStore {
    /// Returns the clock that all pools of this store use.
    pub(super) fn clock(&self) -> Clock {
        match self {
            Self::Memory { clock, .. } => *clock,
            Self::Server(_) => Clock::System,
        }
    }
}

impl KitTarget {
    /// Returns the target for a pool, with the `password_file` of the server's URL.
    pub(super) fn for_pool(self) -> Target {
        let file = self.server().and_then(Target::password_file);
        let file = file.map(Path::to_owned);
        Target::new(self).with_password_file(file)
    }

    fn server(&self) -> Option<&Target> {
        match &self.store {
            SharedStore::Memory { .. } => None,
            SharedStore::Server(target) => Some(target),
        }
    }
}

impl Backend for KitTarget {
    fn can_keep(&self) -> Result<(), LockError> {
        self.server().map_or(Ok(()), |server| server.can_keep())
    }

    fn can_hand_over(&self) -> Result<(), LockError> {
        self.server()
            .map_or(Ok(()), |server| server.can_hand_over())
    }

    fn waits_for_holders(&self) -> bool {
        self.server()
            .is_some_and(|server| server.waits_for_holders())
    }

    fn has_other_clients(&self) -> bool {
        self.server()
            .is_some_and(|server| server.has_other_clients())
    }

    fn clock(&self, _own: Clock) -> Clock {
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

    fn reach(&self) -> Result<(), LockError> {
        if self.line.is_down() {
            return Err(cut());
        }
        Ok(())
    }

    fn check(&self, options: Options) -> Checking {
        let (shown, this) = (self.to_string(), self.clone());
        Box::pin(async move {
            this.reach()?;
            match this.store {
                SharedStore::Memory { .. } => Ok(CheckReport::new(shown, Vec::new())),
                SharedStore::Server(target) => target.check(options).await,
            }
        })
    }

    fn source(&self, options: Options) -> Result<Box<dyn Source>, LockError> {
        self.server()
            .map_or_else(|| Err(no_server()), |server| server.source(options))
    }
}

impl fmt::Display for KitTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.server() {
            Some(server) => server.fmt(f),
            None => f.write_str("memory:// of a test kit"),
        }
    }
}
