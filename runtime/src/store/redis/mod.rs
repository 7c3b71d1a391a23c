//! Locks on one Redis or Valkey.
//!
//! [`scripts`] says what is run on the server, [`server`] how to reach it, [`line`] is one connection, [`connection`] keeps one up,
//! [`reply`] reads answers and errors, [`info`] what a server says of itself.

mod checkup;
mod connection;
mod info;
mod line;
mod names;
mod reply;
mod scripts;
mod server;

pub(crate) use connection::RedisStore;
pub(crate) use info::Info;
pub(crate) use line::Epoch;
pub(crate) use server::Server;
