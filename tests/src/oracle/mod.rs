//! The oracle: says from the notes of all bodies, in all processes, whether a promise was broken.
//!
//! It knows nothing of the lock store. Every body notes when it enters, writes and leaves, with the
//! end of its lease. Stamps are nanoseconds on one clock, which all processes share and which runs
//! on while a process is stopped. The notes are lines of a file, the `history`, which can be
//! checked again.
//!
//! For the oracle a lease begins when the body first reads the clock. It lasts until its deadline
//! `D`, or until the body's end if that came first. A lease is *counted* from `sent`, before its
//! request left. A request may travel for long, and be answered only when the lease before it is
//! over. So `sent` alone may well lie inside the earlier lease. Another check finds a `sent` that
//! is too late.
//!
//! A call of several keys has a section on each of them, with that key's deadline. A nested call
//! that enters a lock has a section inside that of its holder. A holder that downgrades its lock is
//! alone until it asks for that, and a reader from then on.
//!
//! A call with `replay` notes what it was answered: by its own body, or by a result that is kept.
//! Once a result is certainly kept no body begins, and every answer is that of the first.
//!
//! A reader may overlap readers, and a holder of one of `n` places up to `n - 1` other holders. A
//! holder that is alone overlaps no other.

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
