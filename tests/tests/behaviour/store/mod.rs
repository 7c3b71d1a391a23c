//! What a store does for the engine, what it holds, and what a check says of it.

mod conformance;
mod keys_on_the_server;
mod memory;
mod readiness_checks;
