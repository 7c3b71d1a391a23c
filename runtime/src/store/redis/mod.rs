//! Locks on one Redis or Valkey, or on one node of a cluster or of a quorum.
//!
//! The rooms, from the outside in:
//! - [`store`] implements the lock store: it keeps one connection up and the requests on it in
//!   order.
//! - [`commands`] says what the server is asked, and what its answers mean.
//! - `lua/` holds the scripts that run on the server; its `README.md` lists which fragments make
//!   which script.
//! - [`wire`] is the way to one server: opening a connection, moving bytes, cutting replies.
//!
//! Beside the rooms:
//! - [`master_address`] says where the master is: at one address, or where [`sentinel`] finds it.
//! - [`server_info`] reads what a server says of itself.
//! - [`replication`] waits for replicas.
//! - [`check`] looks for what is wrong with a server.
//! - [`look`] shows locks to people, over connections of its own.
//! - [`acl`] lists the permissions that a user needs.
//! - [`garbage`] is what a server sent that is no reply.

pub(crate) mod acl;
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
