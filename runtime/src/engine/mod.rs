//! The engine: the background work of a pool.
//!
//! [`core`] decides which call asks the store for a lock, and when. It also decides which call
//! holds a lock, when to renew it, when it is lost, and which keys must be removed. The core is a
//! state machine with no clock and no I/O, so its rules can be tested without a socket. [`driver`]
//! feeds the core commands, replies and the time, and carries out its decisions.

pub(crate) mod core;
pub(crate) mod driver;
pub(crate) mod lease_cell;
#[cfg(feature = "metrics")]
pub(crate) mod metrics;
mod shown_fence;
#[cfg(test)]
mod simulation;
#[cfg(not(feature = "metrics"))]
mod unmetered;
pub(crate) mod wakers;

#[cfg(not(feature = "metrics"))]
use self::unmetered as metrics;
