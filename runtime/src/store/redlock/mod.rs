//! Locks on a quorum of independent Redis or Valkey masters: the Redlock algorithm.
//!
//! - [`address`] reads the URL.
//! - [`store`] carries out the core's decisions over a connection to each node.
//! - [`core`] decides, without I/O. Its parts are pure too:
//!   - [`question`] is one question to all nodes, and [`quorum`] counts the votes on it.
//!   - [`node`] is what the core knows of one node.
//!   - [`identity`] is what a node reports of itself, and [`eligibility`] says whether it may vote.
//!   - [`tokens`] says which token a lock carries on the nodes.
//!   - [`removals`] holds what is still to be removed from a node.
//!   - [`failures`] are the failures that the core itself reports.

pub(crate) mod address;
mod core;
#[cfg(test)]
mod core_tests;
mod eligibility;
mod failures;
mod identity;
pub(crate) mod look;
mod node;
mod question;
mod quorum;
mod removals;
pub(crate) mod store;
#[cfg(test)]
mod test_quorum;
mod tokens;
