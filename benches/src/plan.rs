//! The arguments of a client process.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::setup::Runtime;

/// The arguments of a client process, the same for every language.
#[derive(Debug, Clone, Args)]
pub(crate) struct Plan {
    /// Where the Redis is; several masters, parted by commas, are to be used as a quorum. Or a
    /// server of another engine, and a Redis behind a comma
    pub(crate) url: String,
    /// What the tasks do
    pub(crate) work: Work,
    /// How many tasks there are (with `keep` and `weigh`: leases or waiters; with `open`: pairs
    /// that are due a second; with `pairs`: pairs)
    pub(crate) tasks: u32,
    /// The ttl of each lock, in milliseconds
    pub(crate) ttl_ms: u64,
    /// How long to run before the window that counts, in milliseconds
    pub(crate) warmup_ms: u64,
    /// How long the window is, in milliseconds
    pub(crate) window_ms: u64,
    /// How long a section lasts, in milliseconds; 0 is an empty one
    pub(crate) section_ms: u64,
    /// How long a task pauses between two sections, in milliseconds
    pub(crate) think_ms: u64,
    /// How long a waiter may wait, in milliseconds; a waiter that is not served by then is lost
    pub(crate) patience_ms: u64,
    /// Where the records go
    pub(crate) file: PathBuf,
    /// The runtime of a client in Rust; without it tokio's default one
    #[arg(long)]
    pub(crate) runtime: Option<Runtime>,
    /// The seed of the arrivals
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
}

/// What the tasks of a client do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Work {
    /// All tasks, of all processes, take one key again and again.
    Hot,
    /// Each task takes a key of its own again and again.
    Distinct,
    /// A new task takes a key of its own once, whenever a pair is due.
    Open,
    /// Takes as many keys, spread over a renewal interval, and keeps them renewed.
    Keep,
    /// Takes as many keys as fast as it can, and keeps them renewed.
    KeepBurst,
    /// Takes as many keys and says how much memory they need.
    WeighHeld,
    /// Lets as many callers wait and says how much memory they need.
    WeighWaiting,
    /// Runs as many calls, each with a key of its own, and says how much memory the server needs for
    /// each result.
    WeighResults,
    /// Runs as many pairs one after the other, for a program that counts instructions.
    Pairs,
}

impl Work {
    /// The value's name on the command line.
    fn name(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

impl Plan {
    /// The plan as a command line.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let mut arguments = vec![
            self.url.clone(),
            self.work.name(),
            self.tasks.to_string(),
            self.ttl_ms.to_string(),
            self.warmup_ms.to_string(),
            self.window_ms.to_string(),
            self.section_ms.to_string(),
            self.think_ms.to_string(),
            self.patience_ms.to_string(),
            self.file.display().to_string(),
        ];
        // Programs of other languages and of earlier builds know only the arguments above.
        if let Some(runtime) = self.runtime {
            arguments.extend(["--runtime".to_owned(), runtime.name().to_owned()]);
        }
        if self.work == Work::Open {
            arguments.extend(["--seed".to_owned(), self.seed.to_string()]);
        }
        arguments
    }

    /// The URL of each master.
    pub(crate) fn masters(&self) -> impl Iterator<Item = &str> {
        self.url.split(',')
    }

    /// The key of a task.
    pub(crate) fn key(&self, task: u32) -> String {
        match self.work {
            Work::Hot => "hot".to_owned(),
            _ => format!("key{task}"),
        }
    }

    pub(crate) fn ttl(&self) -> Duration {
        Duration::from_millis(self.ttl_ms)
    }

    pub(crate) fn warmup(&self) -> Duration {
        Duration::from_millis(self.warmup_ms)
    }

    pub(crate) fn window(&self) -> Duration {
        Duration::from_millis(self.window_ms)
    }

    pub(crate) fn section(&self) -> Duration {
        Duration::from_millis(self.section_ms)
    }

    pub(crate) fn think(&self) -> Duration {
        Duration::from_millis(self.think_ms)
    }

    pub(crate) fn patience(&self) -> Duration {
        Duration::from_millis(self.patience_ms)
    }
}
