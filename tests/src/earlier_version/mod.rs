//! A process of version 0.1.0 (commit 47729d5) on a server, for tests in which it meets the present version.
//!
//! It speaks what that version spoke, with copies of its scripts in `tests/wire/v0_1_0`, and keeps its habits: when it asks
//! again, when it hands a lock on, what it does when it is told something. It has nothing of the present version's code.

mod answer;
mod process;
mod scripts;
mod waiting;

pub use answer::Answer;
pub use process::{EarlierProcess, Message, random_hex};
pub use waiting::{Lease, Want};
