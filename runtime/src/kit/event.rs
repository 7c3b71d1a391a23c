//! Events of a history, and their display.

use std::fmt;
use std::time::Duration;

use crate::error::LockError;
use crate::fence::Fence;

/// One event of a [`History`](super::History).
///
/// ```
/// use leasehold::testing::{EventKind, Kit};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let kit = Kit::new();
/// let other = kit.hold("order:42").await;
/// let history = kit.history();
/// let first = history.iter().next().expect("an event");
/// assert_eq!(first.key, "order:42");
/// assert!(first.caller.other);
/// assert!(matches!(first.kind, EventKind::Granted { .. }));
/// # }
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Event {
    /// Time since the kit's first use, on the clock that ends the leases.
    pub at: Duration,
    /// The key without the namespace.
    pub key: String,
    /// Caller whose lock has changed, or whose request was refused.
    pub caller: Caller,
    /// Kind of event.
    pub kind: EventKind,
    /// End of the lease after a grant or a renewal. None for other events.
    pub(super) until: Option<Duration>,
}

/// A call of the kit's pool that requests a lock, or a holder created by
/// [`Kit::hold`](super::Kit::hold). A call for several locks counts as one caller for each lock.
///
/// ```
/// # use std::time::Duration;
/// use leasehold::testing::Kit;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), leasehold::LockError> {
/// let kit = Kit::new();
/// let guard = kit.pool().lock("order:42").ttl(Duration::from_secs(10)).acquire().await?;
/// let history = kit.history();
/// let caller = &history.iter().next().expect("a grant").caller;
/// assert_eq!((caller.number, caller.other), (1, false));
/// assert_eq!(caller.to_string(), "call 1");
/// # guard.release().await
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Caller {
    /// Number from 1, in the order of the callers' first events. The holders created by `hold` have
    /// a separate numbering.
    pub number: u32,
    /// True if the caller is a holder created by [`Kit::hold`](super::Kit::hold), which simulates
    /// another process.
    pub other: bool,
    /// Path of the annotated function. Empty for locks taken without the attribute, for example by
    /// [`LockPool::lock`](crate::LockPool::lock).
    pub function: &'static str,
}

/// A change to a lock, or a refused call.
///
/// ```
/// use leasehold::testing::{EventKind, Kit};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let kit = Kit::new();
/// drop(kit.hold("order:42").await);
/// let history = kit.history();
/// let last = history.iter().last().expect("two events");
/// assert_eq!(last.kind, EventKind::Dropped);
/// # }
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum EventKind {
    /// The caller has acquired the lock.
    Granted {
        /// Mode of the lock, which decides which other holders it excludes.
        mode: Mode,
        /// Fence of the acquisition, if the store has fences.
        fence: Option<Fence>,
    },
    /// The store has confirmed a renewal. The lease runs its full ttl from the time at which the
    /// renewal was sent.
    Renewed,
    /// An exclusive lock has become a share.
    Downgraded,
    /// The lease was lost, because it was not renewed in time or the lock was taken away. The
    /// caller is notified.
    Lost,
    /// The caller has requested the release, or has given the lock away as a
    /// [`Handover`](crate::Handover). After that, nothing of this caller runs inside the lock.
    Released,
    /// The caller's future or guard was dropped while it held the lock. The drop releases the lock.
    Dropped,
    /// The holder's process has died ([`Held::expire`](super::Held::expire)). The store keeps the
    /// lock until its ttl is over.
    Died,
    /// The release did not find the lock in the store. The lease had been lost before, but the
    /// engine had not detected the loss.
    GoneAtRelease,
    /// The caller did not get the lock.
    Refused(LockError),
}

/// Mode of a lock, which decides which other holders it excludes.
///
/// ```
/// # use std::time::Duration;
/// use leasehold::testing::{EventKind, Kit, Mode};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let kit = Kit::new();
/// let reader = kit.hold("catalog").shared().await;
/// let history = kit.history();
/// let granted = &history.iter().next().expect("a grant").kind;
/// assert!(matches!(granted, EventKind::Granted { mode: Mode::Shared, .. }));
/// # reader.release().await;
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// Excludes all other holders.
    Exclusive,
    /// Allows only other `Shared` holders, in any number.
    Shared,
    /// Allows only other `Permit` holders, with at most this many holders in total.
    Permit(u32),
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.other { "other" } else { "call" };
        write!(f, "{kind} {}", self.number)?;
        if self.function.is_empty() {
            return Ok(());
        }
        write!(f, " of {}", self.function)
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Granted { mode, .. } => write!(f, "granted, {mode}"),
            Self::Renewed => f.write_str("renewed"),
            Self::Downgraded => f.write_str("downgraded, shared"),
            Self::Lost => f.write_str("lost"),
            Self::Released => f.write_str("released"),
            Self::Dropped => f.write_str("dropped"),
            Self::Died => f.write_str("died, kept until its ttl is over"),
            Self::GoneAtRelease => f.write_str("gone at its release"),
            Self::Refused(error) => write!(f, "refused, {}", reason(error)),
        }
    }
}

/// Returns the kind of error. Leaves out times and numbers, because they may differ between two
/// runs of a test.
fn reason(error: &LockError) -> &str {
    match error {
        LockError::Contended { .. } => "contended",
        LockError::TimedOut { .. } => "timed out",
        LockError::QueueFull { .. } => "queue full",
        LockError::Lost { .. } => "lost",
        LockError::Unavailable { .. } => "unavailable",
        LockError::ShuttingDown => "shutting down",
        _ => "not possible",
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exclusive => f.write_str("exclusive"),
            Self::Shared => f.write_str("shared"),
            Self::Permit(limit) => write!(f, "one of {limit}"),
        }
    }
}
