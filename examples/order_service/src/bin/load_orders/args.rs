//! The command line.

use std::path::PathBuf;

use clap::Parser;

/// Sends orders many times at once to several order services, and checks the database afterwards.
#[derive(Debug, Parser)]
#[command(name = "load_orders")]
pub(crate) struct Args {
    /// URL of a service, such as `http://127.0.0.1:3000`; repeat the option for each service
    #[arg(long = "url", required = true, value_name = "URL")]
    pub(crate) urls: Vec<String>,

    /// The SQLite file of the services
    #[arg(long, value_name = "FILE", required_unless_present = "store")]
    pub(crate) database: Option<PathBuf>,

    /// The PostgreSQL database of the services, instead of `--database`
    #[arg(long, value_name = "URL", conflicts_with = "database")]
    pub(crate) store: Option<String>,

    /// Percentage of buyers who hang up within 200 ms; the run then has only buyers, and lasts for
    /// `--minutes`
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u64).range(..=100))]
    pub(crate) hang_up: Option<u64>,

    /// Duration with `--hang-up`
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=60))]
    pub(crate) minutes: u64,

    /// Number of different orders
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) orders: u32,

    /// Number of copies of each order, all sent at once
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) copies: u32,

    /// Ordered item; enough of it must be in stock
    #[arg(long, default_value = "cup", value_name = "SKU")]
    pub(crate) order_sku: String,

    /// Number of buyers, who buy one item each
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) buys: u32,

    /// Item that the buyers buy
    #[arg(long, default_value = "kettle", value_name = "SKU")]
    pub(crate) buy_sku: String,

    /// Number of orders under way at once; for buyers, 20 times this number, or
    /// 4 times with `--hang-up`
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) parallel: u32,

    /// Beginning of the ids of this run's orders
    #[arg(long, default_value_t = run_name())]
    pub(crate) run: String,
}

fn run_name() -> String {
    let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    format!("load-{}-{}", std::process::id(), now.as_millis())
}
