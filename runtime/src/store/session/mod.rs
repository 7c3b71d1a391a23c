//! Locks that belong to a session: what stores have in common whose servers know sessions.
//!
//! Such a server knows no lease of a key. It knows *sessions*: a client keeps its session alive
//! with heartbeats, and all of its *nodes* end with the session. A key is a directory of nodes. The
//! node that was made first has the lock; the nodes behind it are a queue, first come first served.
//!
//! - [`service`] is what a server must be able to do. Each engine implements it.
//! - [`store`] implements the lock store: it takes requests, and tells answers and events.
//! - [`shared`] is what the requests of a pool have in common; [`requests`], [`entering`] and
//!   [`leaving`] carry them out.
//! - [`sessions`] has a session for each class of ttls, and [`opening`] opens and closes them.
//!   [`live_session`] is one session: until when it is confirmed. [`heartbeats`] keeps it alive.
//! - [`lanes`] keeps the requests for one key in order, [`locks`] says which token has which node
//!   and for how long, and [`places`] has the nodes that wait.
//! - [`look`] shows the locks to any process, and takes them away.
//! - [`members`] reads the members of a cluster from a URL, and [`trial`] tries whether locks work.
//!
//! What makes a lock safe here:
//! - *The session outlasts the lease.* An acquire or a renewal is confirmed only once a heartbeat
//!   is confirmed that covers its whole ttl, counted from before that heartbeat left. So the
//!   engine's deadlines hold, as for a store that keeps a lease for each key.
//! - *The store ends leases itself.* A node lives as long as its session. So the store removes the
//!   node of a token that was not renewed within its ttl, and tries that for ever. If the process
//!   is stopped or killed, the session ends.
//! - *A lost session is told at once.* All of its locks are [`StoreEvent::Lost`] together.
//! - *No node of another session counts.* A node carries its session, and the store compares it.
//!
//! [`StoreEvent::Lost`]: super::StoreEvent::Lost

mod entering;
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
mod places;
mod requests;
pub(crate) mod service;
#[cfg(test)]
mod session_tests;
mod sessions;
mod shared;
pub(crate) mod store;
pub(crate) mod trial;
