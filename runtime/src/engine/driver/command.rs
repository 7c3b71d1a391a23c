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
    /// Acquires the locks of one call in one step.
    AcquireAll {
        acquires: Vec<(TicketId, Acquire, Arc<LeaseCell>)>,
        /// Time for which the call queues if the locks are not free now.
        wait: Duration,
    },
    Release {
        id: TicketId,
        /// Time for which the key stays at the store.
        keep: Option<Duration>,
    },
    /// Releases a lock, and keeps a result beside it.
    ReleaseWith {
        id: TicketId,
        keep: Option<Duration>,
        record: Arc<Record>,
    },
    /// Releases several locks. Their requests leave together.
    ReleaseAll {
        ids: Vec<TicketId>,
        keep: Option<Duration>,
    },
    Abandon(TicketId),
    /// Keeps the locks at the store until this time, however they are given up.
    KeepUntil {
        ids: Vec<TicketId>,
        until: Instant,
    },
    Downgrade(TicketId),
    /// Forgets a lock that another process may adopt.
    GiveAway(TicketId),
    /// Adopts a given-away lock.
    Adopt {
        id: TicketId,
        acquire: Acquire,
        adoption: Adoption,
        cell: Arc<LeaseCell>,
    },
    /// Removes the result kept for a key.
    #[cfg_attr(
        not(feature = "replay"),
        expect(dead_code, reason = "without replay no result is kept")
    )]
    ForgetResult {
        key: FullKey,
        reply: oneshot::Sender<Result<bool, LockError>>,
    },
    /// Wakes a caller at this time.
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
    /// A thread that must not take the engine's mutex polls this listener.
    ListenerOutranked(ListenerId),
    /// A caller's runtime could not start a listener.
    ListenerUnable,
    /// All callers are gone.
    Close,
    /// Reads the store's events at once, for a test kit.
    Listen,
    /// Runs a test's code under the engine's mutex.
    #[cfg(feature = "__test")]
    Inside(Box<dyn FnOnce() + Send>),
}
