//! Locks on one Redis or Valkey.
//!
//! [`scripts`] says what is run on the server, [`bundle`] what together, [`server`] how to reach it
//! and [`sentinel`] how to find it, [`origin`] is either; [`line`] is one connection, [`io_driver`]
//! moves its bytes through a socket, [`framer`] refuses what is no reply, [`connection`] keeps one
//! up, [`replica_acks`] waits for replicas, [`reply`] reads answers and errors, [`info`] what a server
//! says of itself, [`query`] the options of a URL; [`checkup`] looks for what is wrong,
//! [`permissions`] is what a user needs. For a node of a cluster there are [`slot`]s, and
//! [`redirect`]s to other nodes.

pub(crate) mod acl;
pub(crate) mod check;
pub(crate) mod commands;
pub(crate) mod master_address;
pub(crate) mod replication;
mod sentinel;
pub(crate) mod server_info;
pub(crate) mod store;
pub(crate) mod url_options;
pub(crate) mod wire;
