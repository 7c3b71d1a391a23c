//! What callers and listeners ask of the engine.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::lanes::ListenerId;
use crate::base::clock::Instant;
use crate::engine::core::drain::ShutdownReport;
use crate::engine::core::ticket::{Acquire, TicketId};
use crate::engine::lease_cell::LeaseCell;

/// What callers and listeners ask of the engine.
pub(crate) enum Command {
    Acquire {
        id: TicketId,
        acquire: Acquire,
        cell: Arc<LeaseCell>,
    },
    /// The locks of one call, at once.
    AcquireAll {
        acquires: Vec<(TicketId, Acquire, Arc<LeaseCell>)>,
        /// How long the call queues if they cannot be had now.
        wait: Duration,
    },
    Release {
        id: TicketId,
        /// For how long the key is to stay.
        keep: Option<Duration>,
    },
    /// The same for several, whose requests leave together.
    ReleaseAll {
        ids: Vec<TicketId>,
        keep: Option<Duration>,
    },
    Abandon(TicketId),
    Downgrade(TicketId),
    /// Wake a caller at this time.
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
    /// A listener is polled by a thread that must not take the engine's mutex.
    ListenerOutranked(ListenerId),
    /// A runtime that was to listen cannot.
    ListenerUnable,
    /// All callers are gone.
    Close,
    /// Runs code of a test under the engine's mutex.
    #[cfg(feature = "__test")]
    Inside(Box<dyn FnOnce() + Send>),
}
