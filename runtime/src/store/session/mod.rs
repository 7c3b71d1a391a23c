//! Locks that belong to a session, for stores whose servers have sessions.
//!
//! Such a server has no lease for each key. It has *sessions*: a client keeps its session alive
//! with heartbeats, and all of its *nodes* end with the session. A key is a directory of nodes. The
//! oldest node has the lock. The nodes behind it are a queue, first come first served.
//!
//! - [`service`] is the interface of a server with sessions, which each of these stores implements.
//! - [`store`] implements the lock store: it takes requests, and returns answers and events.
//! - [`shared`] is the state that the requests of a pool share. [`requests`], [`entering`] and
//!   [`leaving`] carry the requests out.
//! - [`sessions`] has a session for each class of ttls, and [`opening`] opens and closes them.
//!   [`live_session`] is one session, with the time until which the server has confirmed it.
//!   [`heartbeats`] keeps the session alive.
//! - [`lanes`] keeps the requests for one key in order. [`locks`] has the node of each token and
//!   the end of the token's lease. [`places`] has the waiting nodes.
//! - [`look`] inspects the locks of all processes, and takes them away.
//! - [`members`] parses the members of a cluster from a URL, and [`trial`] tests that locks work.
//!
//! A lock is safe here for these reasons:
//! - *The session outlasts the lease.* A heartbeat confirms the session for some time, counted from
//!   before the heartbeat was sent. An acquire or a renewal succeeds only after a heartbeat whose
//!   confirmed time covers the whole ttl. So the engine's deadlines hold, as they do for a store
//!   with a lease for each key.
//! - *The store ends leases itself.* A node lives as long as its session. So the store removes the
//!   node of a token that was not renewed within its ttl, and retries without limit. If the process
//!   is stopped or killed, the session ends.
//! - *A lost session is reported at once.* A single [`StoreEvent::Lost`] reports all of its locks.
//! - *Nodes of other sessions do not count.* A node records the session that created it. The store
//!   checks that this is its own session.
//!
//! [`StoreEvent::Lost`]: super::StoreEvent::Lost

use crate::error::LockError;

mod entering;
#[cfg(test)]
mod fake_server_tests;
mod heartbeats;
mod lanes;
mod leaving;
mod live_session;
mod locks;
pub(crate) mod look;
#[cfg(test)]
mod look_tests;
pub(crate) mod members;
mod opening;
pub(crate) mod outage;
mod places;
mod reaching;
mod requests;
pub(crate) mod service;
#[cfg(test)]
mod session_tests;
mod sessions;
mod shared;
pub(crate) mod store;
pub(crate) mod trial;

/// Returns the error for a handover of a lock to another process, which these stores do not
/// support.
pub(crate) fn no_hand_over() -> LockError {
    LockError::config(
        "a lock of `etcd://` or `zookeeper://` cannot be handed over, because it ends with a session of this process; use a \
         pool with `redis://` or `postgres://`",
    )
}
