//! Locks on a quorum of independent Redis or Valkey masters: the Redlock algorithm.
//!
//! [`panel`] decides, without I/O: [`quorum`] counts votes, [`ballot`] is one question to all nodes, [`standing`] says which
//! nodes may vote, [`claims`] which token a lock carries, [`debts`] what is still to be removed. [`store`] carries it
//! out over a connection to each node, [`address`] reads the URL, [`identity`] what a node says of itself.

mod address;
mod ballot;
mod claims;
mod debts;
mod identity;
mod panel;
#[cfg(test)]
mod panel_tests;
mod quorum;
mod standing;
mod store;

pub(crate) use address::Address;
pub(crate) use store::RedlockStore;
