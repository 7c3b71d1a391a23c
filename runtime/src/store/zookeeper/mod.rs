//! Locks in a ZooKeeper ensemble, with the names of Apache Curator.
//!
//! A node is an ephemeral sequential znode of a session, named like those of Curator's
//! `InterProcessMutex`. So Java services with Curator and services with this library exclude each
//! other on the same path, and share one queue. The directory of a lock's key is a container, which
//! the server removes when it is empty.
//!
//! - [`service`] implements the session store's interface for ZooKeeper. [`entering`] creates
//!   nodes, and [`removing`] removes them.
//! - [`live`] is a session of the ensemble, and [`heartbeat`] confirms a session.
//! - [`line`] is one connection with its [`requests`], and [`asked`] has the unanswered requests.
//!   [`jute`] is the encoding. [`servers`] opens connections, and [`following`] replaces the
//!   connection of a session.
//! - [`classes`] groups the ttls that share a session, within the bounds that [`handshake`] gets
//!   from the server.
//! - [`names`] maps nodes to znodes, and [`directory`] orders the znodes of a lock.
//! - [`look`] inspects the locks of all processes, and takes them away.
//! - [`address`] parses the URL, [`failure`] has the meaning of each [`error`], and [`check`]
//!   checks an ensemble for problems. [`backend`] connects a store.

pub(crate) mod address;
mod asked;
mod backend;
mod check;
mod classes;
mod directory;
mod entering;
mod error;
mod failure;
mod following;
pub(crate) mod handshake;
mod heartbeat;
mod jute;
pub(crate) mod line;
mod live;
pub(crate) mod look;
pub(crate) mod names;
mod removing;
mod requests;
mod servers;
pub(crate) mod service;
