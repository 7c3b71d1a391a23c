//! The core's limits, and its signals to callers and the driver.

use std::sync::Arc;
use std::time::Duration;

use super::drain::ShutdownReport;
use super::ticket::{Removal, TicketId};
use crate::base::clock::Instant;
use crate::base::token::Token;
use crate::error::LockError;
use crate::fence::Fence;
use crate::store::kept::Kept;

/// A pool's limits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Time limit of one request.
    pub(crate) io_timeout: Duration,
    /// Maximum number of calls of this process that wait for one key.
    pub(crate) max_waiters: usize,
    /// Maximum number of hand-overs of a key inside the process while another process waits for
    /// that key.
    pub(crate) max_passes: u32,
    /// Longest time for which a key may be handed over inside the process, once another process
    /// waits for that key. If none, a quarter of the ttl.
    pub(crate) longest_turn: Option<Duration>,
    /// Time of unbroken use after which a key is left free for clients that do not know the queue.
    /// Zero means never.
    pub(crate) make_way_after: Duration,
    /// Fixed `retry_after` of calls refused because of other calls. If none, the core estimates it.
    pub(crate) retry_hint: Option<Duration>,
    /// The core requests no further lock while at least this many requests have no answer. Renewals
    /// and releases are not limited. They must not wait for acquires, of which there may be a
    /// hundred thousand.
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
            retry_hint: None,
            in_flight: 8,
        }
    }
}

/// A message from the core to a caller.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// False if an earlier request for the lock has no answer yet, and may take the lock again
    /// later. [`Granted`](Self::Granted) follows. True when all requests have their answers.
    Settled(TicketId, bool),
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
    /// The lock was taken away by force. [`Lost`](Self::Lost) follows.
    TakenAway(TicketId),
    /// The lease is lost.
    Lost(TicketId),
    /// The lock was handed over to this ticket. The key still has `token`, the token of the
    /// previous call.
    Inherited { ticket: TicketId, token: Token },
    /// The lock was not taken, because this kept result answers the call.
    Recalled(TicketId, Arc<Kept>),
    /// The removal of a key's kept results has ended; the number identifies its caller. True if the
    /// key had results.
    Forgotten(u64, Result<bool, LockError>),
    /// The lock was not taken.
    Failed(TicketId, LockError),
    /// A call for several locks got none of them by one request, or that request was not sent. The
    /// call may acquire its locks individually.
    Apart(TicketId),
    /// A release has ended, or the caller has waited long enough for it. If no caller waits, the
    /// core sends this signal only for [`Removal::Gone`].
    Released { ticket: TicketId, removal: Removal },
    /// The shutdown with this number has ended.
    ShutDown(u64, ShutdownReport),
}

/// Numbers of releases that have ended.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Releases {
    confirmed: usize,
    unconfirmed: usize,
}

impl Releases {
    /// Counts a release that has ended. It is unconfirmed if the lock was gone, or expired before
    /// the store answered.
    pub(super) fn count(&mut self, confirmed: bool) {
        if confirmed {
            self.confirmed += 1;
        } else {
            self.unconfirmed += 1;
        }
    }

    pub(crate) fn confirmed(self) -> usize {
        self.confirmed
    }

    pub(crate) fn unconfirmed(self) -> usize {
        self.unconfirmed
    }
}

/// Outcomes of renewals, counted per lease.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Renewed {
    /// Leases that the store renewed.
    pub(crate) kept: usize,
    /// Leases whose lock the store no longer had.
    pub(crate) lost: usize,
    /// Leases with an unknown outcome: an error, or no answer in time. The engine renews them
    /// again.
    pub(crate) unknown: usize,
}

/// Largest capacity of a list kept for reuse, so that a burst does not occupy memory forever.
const KEPT: usize = 1024;

/// Replaces `list` with `space` to reuse the memory of `space`, if both are empty and `space` is
/// not too large.
pub(super) fn reuse<T>(list: &mut Vec<T>, space: Vec<T>) {
    if list.is_empty() && space.is_empty() && space.capacity() <= KEPT {
        *list = space;
    }
}
