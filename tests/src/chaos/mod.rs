//! The fault harness: worker processes, faults from a seed, the requirements, the seeded bugs.

mod body;
pub mod crew;
pub mod job;
mod ledger;
pub mod seeded;
pub mod worker;
