//! What locks do, against real servers. One program, so that tests wait side by side.
//!
//! A test that needs the process for itself is in a program of its own: `tests/README.md` has them.

mod bad_input;
mod bodies;
mod connections;
mod deployments;
mod flash_sale;
mod grpc;
mod interop;
mod kinds;
mod leases;
mod pools;
mod queueing;
mod scopes;
mod seeing;
mod store;
