//! The parsed address of a store, with the code that connects to the store and checks it.
//! [`schemes`](super::schemes) parses URLs into it.

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use super::Connecting;
use super::options::Options;
use super::source::Source;
use crate::base::clock::Clock;
use crate::check_report::CheckReport;
use crate::error::LockError;

/// Future that checks a store.
pub(crate) type Checking = Pin<Box<dyn Future<Output = Result<CheckReport, LockError>> + Send>>;

/// A kind of store with its address: everything that a pool needs to connect.
///
/// To add a store, implement this trait in a `backend` module of the store's folder, and add a line
/// to the table of [`schemes`](super::schemes). `Display` shows the address without its password.
pub(crate) trait Backend: fmt::Display + Send + Sync {
    /// Fails if the store's locks end with the process that took them. Such a store cannot keep a
    /// lock after its release.
    fn can_keep(&self) -> Result<(), LockError> {
        Ok(())
    }

    /// Fails if the store cannot replace a lock's token in one step, as a hand-over of a lock to
    /// another process requires.
    fn can_hand_over(&self) -> Result<(), LockError> {
        Ok(())
    }

    /// True if `Source::take_away` waits until the body of the lock's holder has ended.
    fn waits_for_holders(&self) -> bool {
        false
    }

    /// True if clients of other libraries, which do not use the queue, can hold the store's locks.
    fn has_other_clients(&self) -> bool {
        false
    }

    /// Returns the clock for the leases of a pool: the pool's clock `own`, unless the store has a
    /// separate clock.
    fn clock(&self, own: Clock) -> Clock {
        own
    }

    /// Fails for the options that [`connect`](Self::connect) refuses before it contacts a server.
    fn accepts(&self, _options: &Options) -> Result<(), LockError> {
        Ok(())
    }

    /// True if the store is in this process, so that connecting it takes no time.
    fn is_local(&self) -> bool {
        false
    }

    /// Returns the value of [`LockStore::verifies`](super::LockStore::verifies) before the store is
    /// connected.
    fn verifies(&self) -> bool {
        false
    }

    /// Fails while a test simulates that the store is unreachable.
    fn reach(&self) -> Result<(), LockError> {
        Ok(())
    }

    /// Connects the store. Refuses options that it does not support.
    fn connect(&self, options: Options) -> Connecting;

    /// Checks the store over separate connections, not those of a pool.
    fn check(&self, options: Options) -> Checking;

    /// Returns the part of the store that inspects locks. This part connects only at its first
    /// request.
    fn source(&self, options: Options) -> Result<Box<dyn Source>, LockError>;

    /// Returns the name in `memory://name`, which is empty in `memory://`. `None` for other stores.
    #[cfg(feature = "testing")]
    fn memory_name(&self) -> Option<&str> {
        None
    }
}

/// A store, not yet connected.
#[derive(Clone)]
pub(crate) struct Target {
    backend: Arc<dyn Backend>,
    /// The `password_file` of the URL.
    password_file: Option<PathBuf>,
}

/// A panic cannot leave a backend half changed, because its mutable state is behind mutexes.
impl UnwindSafe for Target {}
impl RefUnwindSafe for Target {}

impl Target {
    pub(crate) fn new(backend: impl Backend + 'static) -> Self {
        Self {
            backend: Arc::new(backend),
            password_file: None,
        }
    }

    /// Returns the same store with this `password_file`.
    pub(crate) fn with_password_file(self, password_file: Option<PathBuf>) -> Self {
        Self {
            password_file,
            ..self
        }
    }

    pub(crate) fn password_file(&self) -> Option<&Path> {
        self.password_file.as_deref()
    }
}

impl Deref for Target {
    type Target = dyn Backend;

    fn deref(&self) -> &Self::Target {
        &*self.backend
    }
}
