//! Locks on one Redis or Valkey.
//!
//! [`scripts`] says what is run on the server, [`bundle`] what together, [`server`] how to reach it
//! and [`sentinel`] how to find it, [`origin`] is either; [`line`] is one connection, [`pump`]
//! moves its bytes through a socket, [`framer`] refuses what is no reply, [`connection`] keeps one
//! up, [`copies`] waits for replicas, [`reply`] reads answers and errors, [`info`] what a server
//! says of itself, [`query`] the options of a URL; [`checkup`] looks for what is wrong,
//! [`permissions`] is what a user needs. For a node of a cluster there are [`slot`]s, and
//! [`redirect`]s to other nodes.

mod bundle;
mod checkup;
mod connection;
mod copies;
mod framer;
mod guarded;
mod info;
mod introduction;
mod line;
mod names;
mod origin;
pub(crate) mod permissions;
mod pump;
pub(crate) mod query;
mod redirect;
pub(crate) mod reply;
mod scripts;
mod sentinel;
mod server;
pub(crate) mod slot;
mod socket;
mod source;
#[cfg(any(test, all(feature = "__test", debug_assertions)))]
mod spoilt;
#[cfg(feature = "tls")]
mod tls;

pub(crate) use connection::RedisStore;
pub(crate) use info::Info;
pub(crate) use line::Epoch;
pub(crate) use names::Names;
pub(crate) use origin::Origin;
pub(crate) use redirect::{Endpoint, Manner, Redirect};
pub(crate) use server::Server;
pub(crate) use socket::Told;
#[cfg(feature = "tls")]
pub(crate) use tls::Tls;
