//! Locks in a ZooKeeper ensemble, with the names that Apache Curator gives.
//!
//! A node is an ephemeral sequential znode of a session, named like those of Curator's
//! `InterProcessMutex`. So services in Java on the same path are excluded, and queue with ours. The
//! directory of a lock's key is a container, which the server removes when it is empty.
//!
//! - [`service`] is what the session store asks of ZooKeeper, [`entering`] how a node is made, and
//!   [`removing`] how it is removed.
//! - [`live`] is a session as the server knows it, and [`heartbeat`] says when a heartbeat counts.
//! - [`line`] is one connection with its [`requests`] and what it has [`asked`], in the encoding of
//!   [`jute`]. [`servers`] opens connections, and [`following`] gives a session the next one.
//! - [`classes`] says which ttls have a session in common, within the bounds that [`handshake`]
//!   asks the server for.
//! - [`names`] says which znode is which node, and [`directory`] which is the first of a lock.
//! - [`look`] shows the locks to any process, and takes them away.
//! - [`address`] reads the URL, [`failure`] says what each [`error`] means, and [`check`] looks
//!   for what is wrong with an ensemble. [`connect`] connects a store.

pub(crate) mod address;
mod asked;
mod check;
mod classes;
mod connect;
mod directory;
mod entering;
mod error;
mod failure;
mod following;
pub(crate) mod handshake;
mod heartbeat;
mod jute;
mod line;
mod live;
pub(crate) mod look;
pub(crate) mod names;
mod removing;
mod requests;
mod servers;
pub(crate) mod service;
