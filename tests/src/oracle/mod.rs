//! The oracle: says from the notes of all bodies, in all processes, whether a promise was broken.
//!
//! It knows nothing of the lock store. Every body notes when it enters, writes and leaves, with the end of its lease,
//! in nanoseconds on one clock that all processes share and that runs on while a process is stopped. The notes are
//! lines of a file, the `history`, which can be checked again.
//!
//! What a lease is to the oracle: from the moment at which the body looked at the clock to its deadline `D`, or to
//! its end if that came first. A lease is *counted* from `sent`, before its request left; a request may travel for
//! long, and be answered only when the lease before it is over, so `sent` alone may well lie inside the earlier
//! lease. That `sent` is not too late is a check of its own.
//!
//! A call that has several keys has a section on each of them, with that key's deadline. A nested call that enters a lock has a section
//! inside that of its holder. A holder that downgrades its lock is alone until it asks for that, and a reader from then on.
//!
//! Readers may overlap readers, and those who have one of `n` places up to `n - 1` others; whoever has a lock alone, nobody.

mod check;
#[cfg(test)]
mod fixtures;
mod history;
mod kept;
mod mode;
mod nested;
mod note;
mod rules;
mod section;
mod violation;

pub use check::{Report, check, check_file};
pub use history::{History, Reader};
pub use mode::Mode;
pub use note::Note;
pub use violation::{Kind, Violation};
