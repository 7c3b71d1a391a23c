//! The way to one server: opening a connection, moving bytes, cutting replies.
//!
//! - [`server`] is a server's address and credentials, [`tls`] its certificates.
//! - [`open`] opens a socket and logs in, [`connect`] sets the connection up, and [`introduction`]
//!   names it.
//! - [`connection`] is a connection in use: what is under way on it, and when it is silent for too
//!   long.
//! - [`io_driver`] moves a connection's bytes through its [socket](crate::store::socket).
//! - [`guarded`] lets only replies through, which [`framer`] tells from other bytes.

pub(crate) mod connect;
pub(crate) mod connection;
pub(crate) mod framer;
pub(crate) mod guarded;
pub(crate) mod introduction;
pub(crate) mod io_driver;
pub(crate) mod open;
pub(crate) mod server;
#[cfg(feature = "tls")]
pub(crate) mod tls;
