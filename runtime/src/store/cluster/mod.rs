//! Locks on Redis Cluster.
//!
//! Each master has a separate [`RedisStore`](super::redis::store::RedisStore).
//!
//! - [`address`] parses the URL.
//! - [`topology`] asks nodes for the slots of each master. The result is a [`map`].
//! - [`router`] decides, without I/O, which node gets a request. It follows the nodes' redirects.
//! - [`split_renewals`] divides a batch of renewals by slot, and joins the answers.
//! - [`nodes`] has the connections to the nodes.
//! - [`store`] carries out the router's decisions.
//! - [`check`] looks for problems of the cluster. [`look`] inspects the cluster's locks.

pub(crate) mod address;
mod backend;
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
