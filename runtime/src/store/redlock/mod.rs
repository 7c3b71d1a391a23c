//! Locks on a quorum of independent Redis or Valkey masters: the Redlock algorithm.
//!
//! - [`address`] reads the URL.
//! - [`store`] carries out the core's decisions over a connection to each node.
//! - [`core`] decides, without I/O. Its parts are pure too:
//!   - [`question`] is one question to all nodes, and [`quorum`] counts the votes on it.
//!   - [`node`] is the core's state of one node.
//!   - [`identity`] is a node's report on itself, and [`eligibility`] decides if the node may vote.
//!   - [`tokens`] knows the token of each lock on the nodes.
//!   - [`removals`] holds the pending removals of a node.
//!   - [`failures`] has the failures that the core itself reports.

pub(crate) mod address;
mod backend;
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
