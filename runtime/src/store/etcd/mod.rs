//! Locks in an etcd cluster.
//!
//! A session is a lease of etcd. A node is a key that is attached to the lease. The directory of a
//! lock's key is a range of keys, and the order in it is that of their creation.
//!
//! - [`service`] is what the session store asks of etcd, and [`entering`] how a node is made.
//!   [`session`] is a session as the server knows it, and [`requests`] the parts of transactions.
//! - [`classes`] says which ttls have a lease in common.
//! - [`names`] says which key is which node.
//! - [`client`] has the connection in use, and replaces it; [`connection`] is one connection to one
//!   member; [`messages`] has the messages of the server's API.
//! - [`node_names`] gives the names of nodes again, once no late request can mean a former node.
//! - [`gathering`] lets requests leave together, and [`epoch`] keeps late ones from making a node.
//! - [`look`] shows the locks to any process, and takes them away.
//! - [`address`] reads the URL, [`failure`] says what the server's errors mean, and [`check`] looks
//!   for what is wrong with a cluster. [`connect`] connects a store.

pub(crate) mod address;
mod check;
mod classes;
mod client;
mod connect;
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
