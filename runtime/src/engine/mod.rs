//! The engine: everything that a pool does in the background.
//!
//! [`core`] decides which call asks the store and when, and which call holds a lock. It also
//! decides when to renew, when a lease is lost, and what must be cleaned up. The core is a state
//! machine with no clock and no I/O, so a test of a rule needs no socket.
//! [`driver`] feeds the core commands, replies and the time, and carries out its decisions.

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

#[cfg(not(feature = "metrics"))]
use self::unmetered as metrics;
