//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use crate::contestants::Contestant;
use crate::pace::Pace;
use crate::plan::Plan;
use crate::report::Section;

/// Measures leasehold against hand-written Redis code and against other lock libraries.
#[derive(Debug, Parser)]
#[command(name = "bench", args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) run: RunArguments,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Writes measured tables and a plot into a page, from files written by --json. If several
    /// files contain a contestant's row, the last of these files counts
    Report {
        /// Part of the page to replace: `services` has the rows `open_…` and `closed_…`, and
        /// `measured` has all other rows
        #[arg(long)]
        section: Section,
        /// Files that earlier runs wrote with --json
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// The page; the text between its markers is replaced, and the plot is written beside it
        #[arg(long, default_value = "docs/performance/results.md")]
        page: PathBuf,
    },
    /// A process that computes while a row is measured; the program itself starts these
    #[command(hide = true)]
    Busy,
    /// A proxy that delays all bytes, like a network; the program itself starts it
    #[command(hide = true)]
    Delay { target: SocketAddr, micros: u64 },
    /// One client process; the program itself starts these
    #[command(hide = true)]
    Client {
        contestant: Contestant,
        #[command(flatten)]
        plan: Plan,
    },
}

#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    /// The two-minute subset, without other languages: shows that the harness works, but is too
    /// short to judge times
    #[arg(long)]
    pub(crate) quick: bool,
    /// Only these rows, separated by commas; `open` and `closed` select all rows `open_…` and
    /// `closed_…`, and `open_1000:current_thread:busy` selects a row in some of its setups
    #[arg(long, value_delimiter = ',', value_name = "ROW")]
    pub(crate) rows: Vec<String>,
    /// Only these contestants, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    pub(crate) contestants: Vec<Contestant>,
    /// Number of rounds in which each contestant does each row [default: 5, with --quick 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
    /// Length of each measurement in milliseconds [default: 3000; 600 to 1600 in the rows `open_…`
    /// and `closed_…`; 300 with --quick]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(10..=600_000))]
    window_ms: Option<u64>,
    /// Time in milliseconds after which a waiter counts as lost
    #[arg(long, value_name = "MS", default_value_t = 30_000, value_parser = clap::value_parser!(u64).range(100..=600_000))]
    pub(crate) patience_ms: u64,
    /// File for the results: one JSON object per line, one for each metric
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// The program of an earlier build, measured alternately with this one in separate rows;
    /// `scripts/bench --against COMMIT` builds it
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) against: Option<PathBuf>,
    /// A build of this program with metrics and spans on, for the contestant `leasehold_observed`.
    /// The row `overhead` also runs it, to measure metrics without a recorder.
    /// `scripts/bench --observed` builds it
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) observed: Option<PathBuf>,
    /// The folder of the programs in other languages
    #[arg(long, value_name = "FOLDER", default_value = "target/bench-peers")]
    pub(crate) peers: PathBuf,
}

impl RunArguments {
    pub(crate) fn pace(&self) -> Pace {
        match (&self.against, self.quick) {
            (Some(_), _) => Pace::Against,
            (None, true) => Pace::Quick,
            (None, false) => Pace::Full,
        }
    }

    pub(crate) fn rounds(&self) -> u32 {
        self.rounds.unwrap_or(if self.quick { 1 } else { 5 })
    }

    /// Returns the length of a measurement, as specified by `--window-ms`. The default is 300 ms
    /// with `--quick`, and `full_ms` without it.
    pub(crate) fn window(&self, full_ms: u64) -> Duration {
        let default = if self.quick { 300 } else { full_ms };
        Duration::from_millis(self.window_ms.unwrap_or(default))
    }
}
