//! Code for this repository's tests only. The published crate does not contain this folder.

pub(crate) mod conformance;
#[cfg(test)]
pub(crate) mod fixtures;
#[cfg(all(
    feature = "__test",
    feature = "redis",
    feature = "postgres",
    feature = "etcd",
    feature = "zookeeper",
    feature = "replay"
))]
pub mod foreign;
#[cfg(feature = "__test")]
pub(crate) mod interleave;
#[cfg(feature = "__test")]
pub(crate) mod null_store;
#[cfg(feature = "__test")]
pub mod probe;
#[cfg(all(feature = "redis", any(test, debug_assertions)))]
pub(crate) mod script_mutants;
#[cfg(any(test, debug_assertions))]
pub(crate) mod seeded_bugs;
