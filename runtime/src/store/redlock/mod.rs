//! Locks on a quorum of independent Redis or Valkey masters, by the Redlock algorithm.
//!
//! - [`address`] parses the URL.
//! - [`store`] carries out the core's decisions, over a connection to each node.
//! - [`core`] decides, without I/O. These modules, which also do no I/O, belong to it:
//!   - [`question`] is one question to all nodes, and [`quorum`] counts the votes on it.
//!   - [`node`] is the core's state of one node.
//!   - [`identity`] identifies a node's server, and [`eligibility`] decides if the node may vote.
//!   - [`tokens`] has the token that each lock carries on the nodes.
//!   - [`removals`] has the pending removals of a node.
//!   - [`failures`] has the failures that the core reports itself.

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
