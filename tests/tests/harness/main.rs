//! Tests of the fault harness and its tools: a small run of each requirement, each seeded bug, and
//! other servers.
//!
//! `scripts/chaos` runs the requirements with their full numbers.

mod requirements;
mod seeded_bugs;
mod server_clock;
mod server_versions;
mod servers_and_proxies;
mod zookeeper;
