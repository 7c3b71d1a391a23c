//! Locks on a quorum of independent Redis or Valkey masters: the Redlock algorithm.
//!
//! [`core`] decides, without I/O: [`quorum`] counts votes, [`pending`] is one question to all nodes, [`eligibility`] says which
//! nodes may vote, [`claims`] which token a lock carries, [`debts`] what is still to be removed. [`store`] carries it
//! out over a connection to each node, [`address`] reads the URL, [`identity`] what a node says of itself.

pub(crate) mod address;
mod core;
#[cfg(test)]
mod core_tests;
mod eligibility;
mod identity;
mod question;
mod quorum;
mod removals;
pub(crate) mod store;
mod tokens;
