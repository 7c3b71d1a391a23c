//! Locks on Redis Cluster.
//!
//! Each master is a [`RedisStore`](super::redis::RedisStore) of its own. [`router`] decides, without I/O, which of them is asked, and follows
//! what they say of slots that are elsewhere; [`map`] says who has which slot, [`topology`] asks the cluster for it, [`nodes`] are the
//! connections. [`store`] carries it out, [`address`] reads the URL, [`checkup`] looks for what is wrong.

pub(crate) mod address;
mod check;
mod map;
mod nodes;
mod router;
#[cfg(test)]
mod router_tests;
mod split_renewals;
pub(crate) mod store;
mod topology;
