//! Locks on one Redis or Valkey.
//!
//! [`scripts`] says what is run on the server, [`server`] how to reach it, [`connection`] keeps one connection up,
//! [`reply`] reads answers and errors.

mod connection;
mod reply;
mod scripts;
mod server;

pub(crate) use connection::RedisStore;
pub(crate) use server::Server;
