//! Communicates with one server.
//!
//! - [`server`] is a server's address and credentials. [`tls`] applies the pool's certificates.
//! - [`open`] opens a socket, [`login`] logs in, and [`introduction`] names the connection.
//!   [`connect`] opens a connection and sets it up.
//! - [`connection`] is a connection in use. It has the pending exchanges, and detects a silent
//!   connection.
//! - [`line`] sends and receives bytes. [`framer`] splits received bytes into replies, and
//!   [`replies`] parses the replies.

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
