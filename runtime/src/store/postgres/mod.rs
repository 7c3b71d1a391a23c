//! Locks in a table of a PostgreSQL database.
//!
//! `sql/` has the tables and the functions that work them; its `README.md` lists the files.
//! - [`store`] implements the lock store: it keeps one connection up and the requests on it in
//!   order. [`upkeep`] replaces the connection.
//! - [`calls`] says which requests leave as one call of a function, [`replies`] what the rows mean,
//!   and [`functions`] how it is called. [`results`] does the first two for results that are kept,
//!   and for locks that are adopted. [`rows`] reads the columns.
//! - [`dial`] connects to the hosts of a URL, with [`tls`] where it says so; [`connection`] is a
//!   connection in use.
//! - [`turns`] hears of turns, over a connection of its own where there is a pooler.
//! - [`address`] and [`hosts`] read the URL, [`schema`] makes and checks the tables.
//! - [`failure`] says what the server's errors mean, and [`check`] looks for what is wrong with it.
//! - [`look`] shows locks to people.
//! - [`values`] writes keys, tokens and times as the server reads them.

pub(crate) mod address;
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
mod upkeep;
mod values;
