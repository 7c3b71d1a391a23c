//! The backend of `memory://`.

use std::fmt;

use super::MemoryStore;
use crate::base::clock::Clock;
use crate::base::reporter;
use crate::check_report::{CheckReport, Finding};
use crate::error::LockError;
use crate::store::Connecting;
use crate::store::backend::{Backend, Checking};
use crate::store::credentials;
use crate::store::options::Options;
use crate::store::source::{Source, no_server};

/// The address of locks in this process.
#[derive(Clone)]
pub(crate) struct Memory {
    /// Name that pools use to share their locks. Without a name, the locks are private to one pool.
    name: Option<String>,
}

impl Memory {
    /// Reads the text after `memory://`. A trailing slash is ignored.
    pub(crate) fn parse(rest: &str) -> Result<Self, LockError> {
        let name = rest.strip_suffix('/').unwrap_or(rest);
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if !name.chars().all(fits) {
            return Err(LockError::config(
                "the name in `memory://name` must consist of ASCII letters, digits, `-`, `_` and \
                 `.`, with nothing after it; `memory://` without a name is private to its pool",
            ));
        }
        let name = (!name.is_empty()).then(|| name.to_owned());
        Ok(Self { name })
    }

    fn open(self, options: &Options) -> Result<MemoryStore, LockError> {
        options.tls.refuse()?;
        credentials::refuse(options.logins.is_some())?;
        options.refuse_replicas(
            "`memory://` has no replicas; leave `replicas` out, or use `redis://…`",
        )?;
        let limits = self.limits();
        let store = match (self.name, options.clock) {
            (None, clock) => MemoryStore::private(clock),
            (Some(name), Clock::System) => MemoryStore::named(name),
            (Some(_), Clock::Tokio(_)) => {
                return Err(LockError::config(
                    "pools of one `memory://name` share one clock, but with `on_current_runtime` \
                     each pool has the clock of its runtime; write `memory://` without a name",
                ));
            }
        };
        reporter::log(move || tracing::warn!("{limits}"));
        Ok(store)
    }

    /// Returns the text of a warning about callers that these locks do not exclude.
    fn limits(&self) -> String {
        match &self.name {
            Some(name) => format!(
                "locks on memory://{name} protect this process only; use redis:// for several \
                 processes"
            ),
            None => "locks on memory:// protect this process only, and belong to one pool; use memory://name for \
                     several pools, and redis:// for several processes"
                .to_owned(),
        }
    }
}

impl Backend for Memory {
    fn is_local(&self) -> bool {
        true
    }

    fn connect(&self, options: Options) -> Connecting {
        let memory = self.clone();
        Box::pin(async move { Ok(Box::new(memory.open(&options)?) as _) })
    }

    fn check(&self, _options: Options) -> Checking {
        let warning = Finding::warning("one-process", self.limits());
        let report = CheckReport::new(self.to_string(), vec![warning]);
        Box::pin(async { Ok(report) })
    }

    fn source(&self, _options: Options) -> Result<Box<dyn Source>, LockError> {
        Err(no_server())
    }

    #[cfg(feature = "testing")]
    fn memory_name(&self) -> Option<&str> {
        Some(self.name.as_deref().unwrap_or_default())
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "memory://{}", self.name.as_deref().unwrap_or_default())
    }
}
