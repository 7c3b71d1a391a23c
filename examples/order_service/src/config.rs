//! The command line. The URL of the lock store comes from the environment variable `LEASEHOLD_URL`.
//! With `--store`, the locks and the data are in one database instead.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;

/// A small shop over HTTP. The lock store comes from `LEASEHOLD_URL`: `redis://127.0.0.1/` for any
/// number of processes, `memory://` for one.
#[derive(Debug, Clone, Parser)]
#[command(name = "order_service")]
pub(crate) struct Config {
    /// Address to listen on; port 0 takes a free port, which the first line of the output shows
    #[arg(long, default_value = "127.0.0.1:3000", value_name = "ADDRESS")]
    pub(crate) listen: SocketAddr,

    /// The SQLite file; processes on one machine may share it
    #[arg(long, default_value = "order_service.sqlite", value_name = "FILE")]
    pub(crate) database: PathBuf,

    /// A PostgreSQL database for the data and the locks, `postgres://user:password@host/database`;
    /// it replaces `--database` and `LEASEHOLD_URL`
    #[arg(long, value_name = "URL", value_parser = postgres_url, conflicts_with_all = ["database", "demo", "demo_service"])]
    pub(crate) store: Option<String>,

    /// Stock of a new database
    #[arg(
        long,
        default_value = "kettle=20,cup=200",
        value_delimiter = ',',
        value_name = "SKU=NUMBER"
    )]
    #[arg(value_parser = stocked_item)]
    pub(crate) items: Vec<(String, u32)>,

    /// Response time of the payment provider in milliseconds; by default, longer than a double
    /// click takes
    #[arg(long, default_value = "1000", value_name = "MILLISECONDS", value_parser = milliseconds)]
    pub(crate) payment_ms: Duration,

    /// Shows a double click on a page: two services on one lock store, and a load balancer in front
    /// of them. With `memory://` or no `LEASEHOLD_URL` both services run in this process
    #[arg(long)]
    pub(crate) demo: bool,

    /// Set by the demonstration for a service that it starts: the service's name.
    #[arg(long, hide = true, conflicts_with = "demo")]
    pub(crate) demo_service: Option<String>,
}

fn stocked_item(text: &str) -> Result<(String, u32), String> {
    let (sku, number) = text
        .split_once('=')
        .filter(|(sku, _)| !sku.is_empty())
        .ok_or("write it as `kettle=20`")?;
    let number = number
        .parse()
        .map_err(|_| format!("`{number}` is not a number of items"))?;
    Ok((sku.to_owned(), number))
}

fn postgres_url(url: &str) -> Result<String, &'static str> {
    if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
        return Err(
            "write `postgres://user:password@host/database`; any other store of locks goes into LEASEHOLD_URL",
        );
    }
    if cfg!(not(feature = "postgres")) {
        return Err(
            "this build has no PostgreSQL; write `-p leasehold-order-service --features postgres` behind `cargo run`",
        );
    }
    Ok(url.to_owned())
}

fn milliseconds(text: &str) -> Result<Duration, std::num::ParseIntError> {
    text.parse().map(Duration::from_millis)
}
