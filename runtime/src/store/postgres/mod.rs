//! Locks in a table of a PostgreSQL database.
//!
//! `sql/` has the tables and their functions; its `README.md` lists the files.
//! - [`store`] implements the lock store: it keeps one connection up and the requests on it in
//!   order.
//! - [`calls`] packs requests into calls, [`functions`] makes the calls, and [`replies`] reads the
//!   answers. [`results`] writes and reads the calls about kept results and adopted locks. [`rows`]
//!   reads the columns.
//! - [`dial`] connects to the hosts of a URL, with [`tls`] if the URL asks for it. [`connection`]
//!   is a connection in use.
//! - [`turns`] listens for turns, over a separate connection if there is a pooler.
//! - [`address`] and [`hosts`] read the URL, [`schema`] makes and checks the tables.
//! - [`failure`] interprets the server's errors, and [`check`] checks the server for problems.
//! - [`look`] shows locks to people.
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
