//! The seeded bugs, each with the smallest scenario in which the oracle detects it.
//!
//! A bug is switched on in a worker process (`LEASEHOLD_SEEDED_BUG`). Every scenario also runs
//! without its bug, and then the oracle must find no violation.

mod cases;
mod cluster;
mod earlier_version;
mod elsewhere;
mod kept;
mod nested;
mod quorum;
mod replays;
mod scenarios;
mod scene;
mod server_time;
mod several;
mod shares;
mod ways;

pub use cases::{CASES, Case, UNCHECKED};
pub use elsewhere::{ELSEWHERE, Elsewhere};
