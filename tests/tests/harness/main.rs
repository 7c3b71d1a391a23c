//! Tests of the fault harness: small runs of most requirements, runs on Valkey and a newer Redis,
//! and each seeded bug. Also tests the servers, proxies and clocks that other tests use.
//!
//! `scripts/chaos` runs the requirements at full size.

mod requirements;
mod seeded_bugs;
mod server_clock;
mod server_versions;
mod servers_and_proxies;
mod zookeeper;
