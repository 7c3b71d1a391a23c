//! Checks the behaviour of locks against real servers. All tests are in one program, so that their
//! waiting times overlap.
//!
//! A test that needs a process without other tests is in a separate program, listed in
//! `tests/README.md`.

mod bad_input;
mod bodies;
mod connections;
mod deployments;
mod flash_sale;
mod grpc;
mod interop;
mod kinds;
mod leases;
mod outages;
mod pools;
mod queueing;
mod scopes;
mod seeing;
mod store;
