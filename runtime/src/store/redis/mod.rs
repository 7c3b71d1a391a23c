//! Locks on one Redis or Valkey.
//!
//! [`scripts`] says what is run on the server, [`bundle`] what together, [`server`] how to reach it and [`sentinel`] how to find it, [`origin`] is either;
//! [`line`] is one connection, [`connection`] keeps one up, [`copies`] waits for replicas, [`reply`] reads answers and errors, [`info`] what a server says of itself,
//! [`query`] the options of a URL; [`checkup`] looks for what is wrong, [`permissions`] is what a user needs.

mod bundle;
mod checkup;
mod connection;
mod copies;
mod info;
mod line;
mod names;
mod origin;
pub(crate) mod permissions;
mod query;
mod reply;
mod scripts;
mod sentinel;
mod server;
#[cfg(any(test, all(feature = "__test", debug_assertions)))]
mod spoilt;
#[cfg(feature = "tls")]
mod tls;

pub(crate) use connection::RedisStore;
pub(crate) use info::Info;
pub(crate) use line::Epoch;
pub(crate) use origin::Origin;
#[cfg(feature = "tls")]
pub(crate) use tls::Tls;
