//! What callers and listeners ask of the engine.

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

/// What callers and listeners ask of the engine.
pub(crate) enum Command {
    Acquire {
        id: TicketId,
        acquire: Acquire,
        cell: Arc<LeaseCell>,
    },
    /// Acquires the locks of one call in one step.
    AcquireAll {
        acquires: Vec<(TicketId, Acquire, Arc<LeaseCell>)>,
        /// How long the call queues if the locks cannot be had now.
        wait: Duration,
    },
    Release {
        id: TicketId,
        /// For how long the key stays at the store.
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
    /// The locks stay at the store until this time, however they are given up.
    KeepUntil {
        ids: Vec<TicketId>,
        until: Instant,
    },
    Downgrade(TicketId),
    /// Forgets a lock that another process may adopt.
    GiveAway(TicketId),
    /// Adopts a lock that was given away.
    Adopt {
        id: TicketId,
        acquire: Acquire,
        adoption: Adoption,
        cell: Arc<LeaseCell>,
    },
    /// Removes the result that is kept for a key.
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
    /// Hears at once what the store has to say, for a test kit.
    #[cfg(feature = "testing")]
    Hear,
    /// Runs a test's code under the engine's mutex.
    #[cfg(feature = "__test")]
    Inside(Box<dyn FnOnce() + Send>),
}
