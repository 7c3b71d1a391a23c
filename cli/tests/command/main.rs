//! The command `leasehold` as people start it, against servers of the tests' own.

#![allow(
    missing_docs,
    reason = "a test program has no interface, and its tests are named for what they show"
)]

mod check;
mod files;
mod harness;
mod locks;
mod run;
mod usage;
