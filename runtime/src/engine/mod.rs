//! The engine: everything that a pool does in the background.
//!
//! [`core`] decides. It is a state machine with no clock and no I/O, so that every rule can be tested without
//! a socket: who asks the store and when, who holds, when to renew, when a lease is lost, what must be cleaned up.
//! [`driver`] feeds it commands, replies and the time, and carries out what it decides.

mod acquire;
mod ask;
mod core;
#[cfg(test)]
mod core_tests;
mod downgrade;
mod driver;
mod fifo;
#[cfg(test)]
mod fixtures;
mod hold;
mod jitter;
mod meter;
mod pass;
mod queue;
mod release;
mod shutdown;
#[cfg(test)]
mod simulation;
mod slot;
mod ticket;
mod timers;
mod together;

pub(crate) use self::core::Limits;
pub(crate) use driver::{Command, Connecting, Engine, Place, start};
#[cfg(feature = "redis")]
pub(crate) use jitter::Jitter;
#[cfg(feature = "metrics")]
pub(crate) use meter::tell_counts;
pub use shutdown::ShutdownReport;
pub(crate) use slot::Slot;
pub(crate) use ticket::{Order, Removal, Share, TicketId, Watchdog};
