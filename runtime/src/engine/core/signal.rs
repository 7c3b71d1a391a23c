//! What goes into the core and comes out of it, beside commands and requests.

use std::time::Duration;

use super::drain::ShutdownReport;
use super::ticket::{Removal, TicketId};
use crate::base::clock::Instant;
use crate::error::LockError;
use crate::fence::Fence;

/// A pool's limits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// How long one request may take.
    pub(crate) io_timeout: Duration,
    /// How many calls may queue for one key.
    pub(crate) max_waiters: usize,
    /// How often a key is passed on inside the process while other processes wait for it.
    pub(crate) max_passes: u32,
    /// For how long, if not for a quarter of its ttl.
    pub(crate) longest_turn: Option<Duration>,
    /// After how long of unbroken use a key is left free for clients that know no queue; zero for
    /// never.
    pub(crate) make_way_after: Duration,
    /// How many requests may be under way before no further lock is asked for. Renewals and releases are not bounded, and must not
    /// queue behind a hundred thousand acquires.
    pub(crate) in_flight: usize,
}

impl Limits {
    #[cfg(test)]
    pub(in crate::engine) fn of_tests(io_timeout: Duration, max_waiters: usize) -> Self {
        Self {
            io_timeout,
            max_waiters,
            max_passes: 16,
            longest_turn: None,
            make_way_after: Duration::ZERO,
            in_flight: 8,
        }
    }
}

/// What a caller is told.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// The lock is held; the body may be polled before `deadline`.
    Granted {
        ticket: TicketId,
        deadline: Instant,
        fence: Option<Fence>,
    },
    /// The lease was renewed.
    Extended { ticket: TicketId, deadline: Instant },
    /// The lock has become a share.
    Shared(TicketId),
    /// The lease is over.
    Lost(TicketId),
    /// The lock was not taken.
    Failed(TicketId, LockError),
    /// The lock was not taken, and its call may ask for its locks one by one.
    Apart(TicketId),
    /// A release came to its end, or took too long for the caller that waits for it.
    /// [`Removal::Gone`] is told of each release that finds the lock gone, whether or not a caller
    /// waits.
    Released { ticket: TicketId, removal: Removal },
    /// The shutdown of this number is over.
    ShutDown(u64, ShutdownReport),
}

/// A request whose reply is awaited.
#[derive(Debug)]
pub(super) enum Flight {
    Acquire {
        ticket: TicketId,
        sent: Instant,
    },
    /// Of several tickets for one call.
    AcquireAll {
        tickets: Vec<TicketId>,
        /// Whether the call goes on to queue if they cannot be had now.
        waits: bool,
        sent: Instant,
    },
    Renew {
        tickets: Vec<TicketId>,
        /// Whether they were renewed as shares.
        shares: bool,
        sent: Instant,
        /// When the first of them has something to do, should there be no answer.
        due: Instant,
    },
    Release {
        ticket: TicketId,
        /// Whether no acquire of this ticket was open when this was sent.
        certain: bool,
    },
    /// A place in a store's queue that is given up; nothing follows from the reply.
    Leave,
}
