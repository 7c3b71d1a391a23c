//! The command line.

use std::fmt;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, ValueEnum};

/// Many buyers, few items: first without a lock, then with `#[distributed_lock]`.
#[derive(Debug, Parser)]
#[command(name = "flash_sale")]
pub(crate) struct Args {
    /// Store of the locks and, with Redis, of the stock: `memory://`, `redis://host[:port][/db]` or
    /// `redis+unix:///path`
    #[arg(long, default_value = "memory://", value_name = "URL")]
    pub(crate) store: String,

    /// Number of processes that share the buyers; more than one needs a Redis
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) processes: u32,

    /// Number of buyers, who each want one item at the same time
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) buyers: u32,

    /// Number of items
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) stock: u32,

    /// Seed of the random times between each buyer's look at the stock and the purchase
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,

    /// Sale of this worker process. Set by the program itself when it starts more processes.
    #[arg(long, hide = true, requires = "run")]
    pub(crate) worker: Option<Mode>,

    /// Number of this worker's first buyer.
    #[arg(long, hide = true, default_value_t = 0)]
    pub(crate) first_buyer: u32,

    /// Name of this run's stock, so that two runs on one Redis do not interfere.
    #[arg(long, hide = true, default_value_t = run_name())]
    pub(crate) run: String,
}

/// One of the two sales.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    WithoutLock,
    WithLock,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::WithoutLock => "without lock",
            Self::WithLock => "with lock",
        })
    }
}

impl Args {
    /// Reads the command line. A mistake in it ends the program with a text that suggests a
    /// correction.
    pub(crate) fn read() -> Self {
        let args = Self::parse();
        if let Err((kind, text)) = args.check() {
            Self::command().error(kind, text).exit();
        }
        args
    }

    fn check(&self) -> Result<(), (ErrorKind, String)> {
        if !self.is_in_memory() && !is_redis(&self.store) {
            return Err((
                ErrorKind::InvalidValue,
                "--store takes `memory://`, `redis://host[:port][/db]` or `redis+unix:///path`: \
                 the stock of this example lives there as well"
                    .to_owned(),
            ));
        }
        if self.processes > 1 && self.is_in_memory() {
            return Err((
                ErrorKind::ArgumentConflict,
                format!(
                    "--processes {} needs a store that all processes can reach, and memory:// lives \
                     in one process; add `--store redis://127.0.0.1/` (with a redis-server running there)",
                    self.processes
                ),
            ));
        }
        Ok(())
    }

    pub(crate) fn is_in_memory(&self) -> bool {
        self.store.starts_with("memory:")
    }
}

fn is_redis(store: &str) -> bool {
    store.starts_with("redis://") || store.starts_with("redis+unix://")
}

fn run_name() -> String {
    let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    format!("{}-{}", std::process::id(), now.as_micros())
}
