//! Talks to one server: opens a connection, moves bytes, cuts replies.
//!
//! - [`server`] is a server's address and credentials. [`tls`] has its certificates.
//! - [`open`] opens a socket, [`login`] logs in, and [`introduction`] names the connection.
//!   [`connect`] opens a connection and sets it up.
//! - [`connection`] is a connection in use. It has the pending exchanges, and detects a silent
//!   connection.
//! - [`line`] moves the bytes of a connection, and [`framer`] and [`replies`] read replies.

pub(crate) mod connect;
pub(crate) mod connection;
pub(crate) mod framer;
pub(crate) mod introduction;
pub(crate) mod line;
pub(crate) mod login;
pub(crate) mod open;
mod replies;
pub(crate) mod server;
#[cfg(feature = "tls")]
pub(crate) mod tls;
