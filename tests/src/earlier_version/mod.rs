//! A simulated process of version 0.1.0 (commit 47729d5), for tests in which processes of both
//! versions share a server.
//!
//! The process uses the protocol of version 0.1.0, with copies of the old scripts in
//! `tests/wire/v0_1_0`. Like a real process of version 0.1.0, it repeats requests, passes locks
//! from call to call, and reacts to messages. Except for the clock, it shares no code with the
//! present version.

mod answer;
mod process;
mod scripts;
mod waiting;
mod want;

pub use answer::Answer;
pub use process::{EarlierProcess, Message, random_hex};
pub use waiting::Lease;
pub use want::Want;
