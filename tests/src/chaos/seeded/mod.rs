//! The seeded bugs: for each the smallest scenario in which the oracle finds it.
//!
//! A bug lives in a worker process (`LEASEHOLD_SEEDED_BUG`). Every scenario also runs without it,
//! and must then be without a violation.

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
