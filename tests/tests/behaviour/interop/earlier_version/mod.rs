//! The version before this one, together with this one on one server. Both exclude each other,
//! queue, serve, keep and share.
//!
//! Each scene runs with all four pairs of versions. The pair of two earlier processes shows that
//! the test's client of the earlier version is sound.

mod keeping;
mod peer;
mod seeing;
mod several_keys;
mod sharing;
mod sides;
mod waiting;
