//! The version before this one. On one server with this one it excludes and is excluded, queues and
//! is served, keeps and shares.
//!
//! A pair of processes is played in all four directions. The pair of two earlier ones shows that
//! the test's client of the earlier version is sound by itself.

mod keeping;
mod peer;
mod seeing;
mod several_keys;
mod sharing;
mod sides;
mod waiting;
