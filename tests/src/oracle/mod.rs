//! The oracle, which finds broken promises in the notes of all bodies of all processes.
//!
//! It knows nothing of the lock store. Every body notes its entry, its writes and its end, each
//! with the end of its lease. Stamps are nanoseconds on one clock, which all processes share and
//! which runs on while a process is stopped. The notes are lines of a file, the `history`, which
//! can be checked again.
//!
//! For the oracle a lease begins when the body first reads the clock. It lasts until its deadline
//! `D`, or until the body's end if that comes first. A lease is *counted* from `sent`, before its
//! request left. A request may travel for long, and be answered only after the end of the previous
//! lease. So `sent` may well lie inside the previous lease. Another check finds a `sent` that is
//! too late.
//!
//! A call of several keys has a section on each of them, with that key's deadline. A nested call
//! that enters a lock has a section inside that of its holder. A holder that downgrades its lock is
//! alone until it asks for that, and a reader afterwards.
//!
//! A call with `replay` notes its answer, from its own body or from a kept result. Once a result is
//! certainly kept, no body may begin, and every answer must equal the first one.
//!
//! Readers may overlap each other. A holder of one of `n` places may overlap up to `n - 1` others.
//! A holder that is alone may overlap no other.

mod check;
#[cfg(test)]
mod fixtures;
mod history;
mod kept;
mod mode;
mod nested;
mod note;
mod overlap;
mod replays;
mod rules;
mod section;
mod taken;
mod violation;

pub use check::{Report, check, check_file};
pub use history::{History, Reader};
pub use mode::Mode;
pub use note::Note;
pub use violation::{Kind, Violation};
