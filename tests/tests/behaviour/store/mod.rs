//! Tests of stores: their conformance, their contents on the server, and their readiness checks.

mod conformance;
mod keys_on_the_server;
mod memory;
mod readiness_checks;
