//! The way to one server: opening a connection, moving bytes, cutting replies.

pub(crate) mod connect;
pub(crate) mod connection;
pub(crate) mod framer;
pub(crate) mod guarded;
pub(crate) mod introduction;
pub(crate) mod io_driver;
pub(crate) mod open;
pub(crate) mod server;
pub(crate) mod socket;
#[cfg(feature = "tls")]
pub(crate) mod tls;
