//! A process of version 0.1.0 (commit 47729d5) on a server, for tests together with the present
//! version.
//!
//! It uses that version's protocol, with copies of its scripts in `tests/wire/v0_1_0`. It repeats
//! requests, hands locks over and reacts to messages like that version. Except for the clock, it
//! uses no code of the present version.

mod answer;
mod process;
mod scripts;
mod waiting;
mod want;

pub use answer::Answer;
pub use process::{EarlierProcess, Message, random_hex};
pub use waiting::Lease;
pub use want::Want;
