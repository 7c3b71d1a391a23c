//! Locks on one Redis or Valkey.
//!
//! [`scripts`] says what is run on the server, [`server`] how to reach it and [`sentinel`] how to find it, [`origin`] is either;
//! [`line`] is one connection, [`connection`] keeps one up, [`reply`] reads answers and errors, [`info`] what a server says of itself,
//! [`query`] the options of a URL.

mod checkup;
mod connection;
mod info;
mod line;
mod origin;
mod query;
mod reply;
mod scripts;
mod sentinel;
mod server;

pub(crate) use connection::RedisStore;
pub(crate) use origin::Origin;
pub(crate) use sentinel::Sentinels;
pub(crate) use server::Server;
