//! Locks in a table of a PostgreSQL database.
//!
//! `sql/` has the tables and their functions; its `README.md` lists the files.
//! - [`store`] implements the lock store: it keeps one connection open, and sends requests on it in
//!   order.
//! - [`calls`] packs requests into calls of SQL functions, [`functions`] makes these calls, and
//!   [`replies`] reads the answers. [`results`] makes and reads the calls about kept results and
//!   adopted locks. [`rows`] reads the columns of a row.
//! - [`dial`] connects to the hosts of a URL, with [`tls`] if the URL requires it. [`connection`]
//!   is a connection in use.
//! - [`turns`] receives notifications from the server, over a separate connection if the URL has
//!   `listen=`.
//! - [`address`] and [`hosts`] read the URL, and [`schema`] creates and checks the tables.
//! - [`failure`] interprets the server's errors, and [`check`] checks the server for problems.
//! - [`look`] inspects locks, and takes them away.
//! - [`values`] writes keys, tokens and times in the server's formats.

pub(crate) mod address;
mod backend;
mod calls;
#[cfg(test)]
mod calls_tests;
mod check;
mod connection;
mod dial;
mod failure;
mod functions;
mod hosts;
pub(crate) mod look;
mod replies;
mod results;
mod rows;
pub(crate) mod schema;
pub(crate) mod store;
#[cfg(feature = "tls")]
mod tls;
pub(crate) mod turns;
mod values;
