//! Tests of version 0.1.0 (the earlier version) together with this version on one server. Processes
//! of both versions exclude each other, wait in one queue, notify each other, keep locks and share
//! locks.
//!
//! The tests that use `in_four_directions` run with all four pairs of versions. The pair of two
//! earlier processes shows that `leasehold_tests::earlier_version`, which imitates the earlier
//! version, is correct.

mod keeping;
mod peer;
mod seeing;
mod several_keys;
mod sharing;
mod sides;
mod waiting;
