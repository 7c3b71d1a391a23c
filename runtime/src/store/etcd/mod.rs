//! Locks in an etcd cluster.
//!
//! A session is a lease of etcd. A node is a key attached to the lease. The directory of a lock's
//! key is a range of keys, in the order of their creation.
//!
//! - [`service`] implements the session store's interface for etcd, and [`entering`] creates nodes.
//!   [`session`] is a session as the server knows it, and [`requests`] has the parts of
//!   transactions.
//! - [`classes`] groups the ttls that share a lease.
//! - [`names`] maps nodes to keys of etcd.
//! - [`client`] has the connection in use, and replaces it after a failure. [`connection`] is one
//!   connection to one member. [`messages`] has the messages of the server's API.
//! - [`node_names`] gives the name of a removed node to a new one, once no request for the old node
//!   can still be carried out.
//! - [`gathering`] sends several requests in one transaction. [`epoch`] prevents a late request
//!   from creating a node.
//! - [`look`] inspects the locks of all processes, and takes them away.
//! - [`address`] parses the URL, [`failure`] has the meaning of the server's errors, and [`check`]
//!   checks a cluster for problems. [`backend`] connects a store.

use std::time::Duration;

pub(crate) mod address;
mod backend;
mod check;
mod classes;
mod client;
mod connection;
mod entering;
pub(crate) mod epoch;
#[cfg(feature = "__test")]
mod etcd_tests;
mod failure;
mod gathering;
pub(crate) mod look;
pub(crate) mod messages;
pub(crate) mod names;
mod node_names;
pub(crate) mod requests;
pub(crate) mod service;
mod session;
#[cfg(feature = "tls")]
mod tls;

/// Time without traffic after which the kernel sends a TCP probe, the interval of the probes, and
/// the number of unanswered ones that end the connection. Without probes, a firewall may drop an
/// idle connection, and the next call would notice it.
const PROBE: Duration = Duration::from_secs(15);
const PROBE_EVERY: Duration = Duration::from_secs(5);
const PROBES: u32 = 3;
