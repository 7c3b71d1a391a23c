//! Tests of the fault harness and its tools: small runs of most requirements, each seeded bug, and
//! other servers.
//!
//! `scripts/chaos` runs the requirements at full size.

mod requirements;
mod seeded_bugs;
mod server_clock;
mod server_versions;
mod servers_and_proxies;
mod zookeeper;
