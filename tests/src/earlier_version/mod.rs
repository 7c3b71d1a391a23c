//! A process of version 0.1.0 (commit 47729d5) on a server, for tests in which it meets the present
//! version.
//!
//! It speaks that version's protocol, with copies of its scripts in `tests/wire/v0_1_0`. It keeps
//! that version's habits: when it asks again, when it hands a lock over, how it reacts to messages.
//! It has none of the present version's code.

mod answer;
mod process;
mod scripts;
mod waiting;
mod want;

pub use answer::Answer;
pub use process::{EarlierProcess, Message, random_hex};
pub use waiting::Lease;
pub use want::Want;
