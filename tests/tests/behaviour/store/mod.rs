//! Stores: their duties to the engine, their contents, and their readiness checks.

mod conformance;
mod keys_on_the_server;
mod memory;
mod readiness_checks;
