//! The engine: everything that a pool does in the background.
//!
//! [`core`] decides. It is a state machine with no clock and no I/O, so that every rule can be tested without
//! a socket: who asks the store and when, who holds, when to renew, when a lease is lost, what must be cleaned up.
//! [`machine`] feeds it commands, replies and the time, and carries out what it decides; [`driver`] says who works the machine. [`thread`] gives the
//! driver a thread of its own, so that leases are renewed while the program's workers are blocked, and
//! released when its runtime is gone.

mod acquire;
mod alarms;
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
mod home;
mod inbox;
mod jitter;
mod lookout;
mod machine;
mod meter;
mod news;
mod pass;
mod queue;
mod quickness;
mod release;
mod shared;
mod shutdown;
#[cfg(test)]
mod simulation;
mod slot;
mod spin;
mod thread;
mod ticket;
mod timer;
mod timers;
mod together;

pub(crate) use self::core::Limits;
pub(crate) use driver::Engine;
pub(crate) use inbox::Command;
#[cfg(feature = "redis")]
pub(crate) use jitter::Jitter;
#[cfg(feature = "metrics")]
pub(crate) use meter::tell_counts;
pub(crate) use news::guarded;
pub use shutdown::ShutdownReport;
pub(crate) use slot::Slot;
pub(crate) use thread::{Connecting, Place, start};
pub(crate) use ticket::{Order, Removal, Share, TicketId, Watchdog};
