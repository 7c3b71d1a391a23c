//! The command `leasehold`, run as a program against servers that the tests start.

#![allow(
    missing_docs,
    reason = "a test program has no interface, and its tests are named for what they show"
)]

mod check;
mod files;
mod generated;
mod harness;
mod locks;
mod run;
mod usage;
