//! The oracle, which finds broken promises in the notes of all bodies of all processes.
//!
//! The oracle does not read the lock store. Every body notes its entry, its writes and its end,
//! each with the end of its lease. Timestamps are nanoseconds of one clock, which all processes
//! share and which continues while a process is stopped. The notes are lines of a file, the
//! `history`, which can be checked again later.
//!
//! For the oracle a lease begins when the body first reads the clock. It lasts until its deadline
//! `D`, or until the end of the body if that comes first. For the process a lease begins earlier,
//! at `sent`: the time just before its request was sent. The request may be on its way for so long
//! that it is granted only after the end of the previous lease. So `sent` may be inside the
//! previous lease, and the oracle does not use it as the start. A separate check finds a value of
//! `sent` that is too late (`LeaseTooLong`).
//!
//! A section is one body inside the lock of one key. A call of several keys has one section for
//! each key, with the deadline of that key. A nested call has a section inside the section of its
//! holder. A holder that downgrades its lock is exclusive until it requests the downgrade, and a
//! reader after that.
//!
//! A call with `replay` notes its answer, from its own body or from a kept result. After a result
//! is certainly kept, no body may begin, and every answer must equal the first one.
//!
//! Readers may overlap each other. A holder of one of `n` permits may overlap up to `n - 1` others.
//! An exclusive holder may overlap no other holder.

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
