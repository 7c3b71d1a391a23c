//! A small shop over HTTP, as a service that can run in any number of processes.
//!
//! | request | what it does |
//! |---|---|
//! | `POST /orders` `{"id": "…", "sku": "…"}` | makes the order once, however often it is sent; the id may come as `Idempotency-Key` |
//! | `GET /orders`, `GET /orders/{id}` | the latest orders, one order |
//! | `POST /items/{sku}/buy` | sells one item and never one too many |
//! | `GET /items`, `GET /items/{sku}` | the stock |
//! | `GET /metrics` | the metrics of leasehold, for Prometheus: `docs/monitoring/` has a dashboard and alerts |
//!
//! The two functions to copy are `create_order` in `routes.rs` and `sell_one` in `stock.rs`; with
//! PostgreSQL also `sell` in `db/postgres.rs`.
//!
//! With `--demo`, the program starts two services on one lock store instead, and shows a double
//! click on a page: `demo/`.

mod config;
mod db;
mod demo;
mod error;
mod metrics;
mod payments;
mod routes;
mod server;
mod stock;
#[cfg(test)]
mod unit_tests;

use std::io::IsTerminal as _;
use std::process::ExitCode;

use clap::Parser as _;

/// Runs the program: reads the command line, serves until it receives a stop signal, and reports
/// errors.
pub async fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    match server::run(config::Config::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("order_service: {error}");
            ExitCode::FAILURE
        }
    }
}
