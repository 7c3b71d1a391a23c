//! A process of version 0.1.0 (commit 47729d5) on a server, for tests together with the present
//! version.
//!
//! It uses the protocol of version 0.1.0, with copies of its scripts in `tests/wire/v0_1_0`. Like
//! that version, it repeats requests, passes locks from call to call, and reacts to messages.
//! Except for the clock, it shares no code with the present version.

mod answer;
mod process;
mod scripts;
mod waiting;
mod want;

pub use answer::Answer;
pub use process::{EarlierProcess, Message, random_hex};
pub use waiting::Lease;
pub use want::Want;
