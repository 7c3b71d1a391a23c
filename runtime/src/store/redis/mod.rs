//! Locks on one Redis or Valkey server, which may be a node of a cluster or of a quorum.
//!
//! The modules, from the outside in:
//! - [`store`] implements the lock store: it keeps a connection to the server open, and sends
//!   requests on it in order.
//! - [`commands`] builds the commands for the server and reads its answers.
//! - `lua/` contains the scripts that run on the server. Its `README.md` lists the fragments of
//!   each script.
//! - [`wire`] opens connections to one server, sends bytes, and splits received bytes into replies.
//!
//! Other modules:
//! - [`master_address`] is the address of the master: a fixed one, or one that [`sentinel`] finds.
//! - [`server_info`] reads a server's `INFO`.
//! - [`replication`] waits for replicas.
//! - [`check`] looks for problems of a server.
//! - [`look`] shows locks to operators, over separate connections.
//! - [`acl`] lists the permissions that a user needs.
//! - [`garbage`] describes invalid replies.

pub(crate) mod acl;
pub(crate) mod backend;
pub(crate) mod check;
pub(crate) mod commands;
pub(crate) mod garbage;
pub(crate) mod look;
pub(crate) mod master_address;
pub(crate) mod replication;
pub(crate) mod sentinel;
pub(crate) mod server_info;
pub(crate) mod store;
pub(crate) mod wire;
