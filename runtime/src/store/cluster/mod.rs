//! Locks on Redis Cluster.
//!
//! Each master is a [`RedisStore`](super::redis::store::RedisStore) of its own.
//!
//! - [`address`] reads the URL.
//! - [`topology`] asks the nodes which master has which slot; [`map`] is the result.
//! - [`router`] decides, without I/O, which node gets a request. It follows the nodes' redirects.
//! - [`split_renewals`] divides a batch of renewals by slot, and joins the answers.
//! - [`nodes`] holds the connections to the nodes.
//! - [`store`] carries out what the router decides.
//! - [`check`] looks for what is wrong with the cluster.

pub(crate) mod address;
mod check;
pub(crate) mod look;
mod map;
mod nodes;
mod router;
#[cfg(test)]
mod router_tests;
mod split_renewals;
pub(crate) mod store;
pub(crate) mod topology;
