//! Locks on Redis Cluster.
//!
//! Each master is a [`RedisStore`](super::redis::RedisStore) of its own. [`router`] decides, without I/O, which of them is asked, and follows
//! what they say of slots that are elsewhere; [`map`] says who has which slot, [`topology`] asks the cluster for it, [`nodes`] are the
//! connections. [`store`] carries it out, [`address`] reads the URL, [`checkup`] looks for what is wrong.

mod address;
mod checkup;
mod map;
mod nodes;
mod router;
#[cfg(test)]
mod router_tests;
mod store;
mod topology;
mod whole;

pub(crate) use address::Address;
pub(crate) use store::ClusterStore;
