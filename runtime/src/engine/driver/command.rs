//! Commands of callers and listeners to the engine.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::lanes::ListenerId;
use crate::base::clock::Instant;
use crate::base::full_key::FullKey;
use crate::engine::core::drain::ShutdownReport;
use crate::engine::core::ticket::{Acquire, Adoption, TicketId};
use crate::engine::lease_cell::LeaseCell;
use crate::error::LockError;
use crate::store::kept::Record;

/// A command of a caller or a listener to the engine.
pub(crate) enum Command {
    Acquire {
        id: TicketId,
        acquire: Acquire,
        cell: Arc<LeaseCell>,
    },
    /// Acquires all locks of one call with one request.
    AcquireAll {
        acquires: Vec<(TicketId, Acquire, Arc<LeaseCell>)>,
        /// Maximum time for which the call waits for its locks.
        wait: Duration,
    },
    Release {
        id: TicketId,
        /// Time for which the key stays at the store after the release.
        keep: Option<Duration>,
    },
    /// Releases a lock, and stores the call's result for later `replay` calls.
    ReleaseWith {
        id: TicketId,
        keep: Option<Duration>,
        record: Arc<Record>,
    },
    /// Releases several locks. Their requests are sent together.
    ReleaseAll {
        ids: Vec<TicketId>,
        keep: Option<Duration>,
    },
    Abandon(TicketId),
    /// Keeps the locks taken at the store until `until` or longer, even if the call is dropped.
    KeepUntil {
        ids: Vec<TicketId>,
        until: Instant,
    },
    Downgrade(TicketId),
    /// Forgets a held lock, but leaves it at the store, where another process may adopt it.
    GiveAway(TicketId),
    /// Adopts a lock that another process has given away.
    Adopt {
        id: TicketId,
        acquire: Acquire,
        adoption: Adoption,
        cell: Arc<LeaseCell>,
    },
    /// Removes the results kept for a key.
    #[cfg_attr(
        not(feature = "replay"),
        expect(dead_code, reason = "without replay no result is kept")
    )]
    ForgetResult {
        key: FullKey,
        reply: oneshot::Sender<Result<bool, LockError>>,
    },
    /// Wakes a caller at `at`, because its waiting time is over.
    Wake {
        at: Instant,
        caller: oneshot::Sender<()>,
    },
    ShutDown {
        limit: Duration,
        reply: oneshot::Sender<ShutdownReport>,
    },
    /// A listener has ended.
    ListenerEnded(ListenerId),
    /// Removes a listener that was polled by a low-priority thread. Such a thread must not take the
    /// engine's mutex.
    ListenerOutranked(ListenerId),
    /// A caller's runtime could not start a listener.
    ListenerUnable,
    /// The pool is dropped, so no more commands follow from callers.
    Close,
    /// Makes the engine read the store's events now. Only a test kit uses this.
    Listen,
    /// Runs a test's code under the engine's mutex.
    #[cfg(feature = "__test")]
    Inside(Box<dyn FnOnce() + Send>),
}
