//! The engine: everything that a pool does in the background.
//!
//! [`core`] decides. It is a state machine with no clock and no I/O, so that every rule can be tested without
//! a socket: who asks the store and when, who holds, when to renew, when a lease is lost, what must be cleaned up.
//! [`driver`] feeds it commands, replies and the time, and carries out what it decides.

pub(crate) mod core;
pub(crate) mod driver;
pub(crate) mod lease_cell;
pub(crate) mod metrics;
#[cfg(test)]
mod simulation;
