//! Locks on one Redis or Valkey.
//!
//! [`scripts`] says what is run on the server, [`server`] how to reach it, [`line`] is one connection, [`connection`] keeps one up,
//! [`reply`] reads answers and errors.

mod checkup;
mod connection;
mod line;
mod names;
mod reply;
mod scripts;
mod server;

pub(crate) use connection::RedisStore;
pub(crate) use server::Server;
