//! The arguments of a client process.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::setup::Runtime;

/// The arguments of a client process, the same for every language.
#[derive(Debug, Clone, Args)]
pub(crate) struct Plan {
    /// URL of the Redis; the URLs of several masters, separated by commas, form a quorum. With
    /// another engine: the URL of its server, a comma, and the URL of a Redis for comparison
    pub(crate) url: String,
    /// Work of the tasks
    pub(crate) work: Work,
    /// Number of tasks (with `keep…` and `weigh…`: leases, waiters or results; with `open`: pairs
    /// due per second; with `pairs`: pairs)
    pub(crate) tasks: u32,
    /// The ttl of each lock, in milliseconds
    pub(crate) ttl_ms: u64,
    /// Time before the measured window, in milliseconds
    pub(crate) warmup_ms: u64,
    /// Length of the window, in milliseconds
    pub(crate) window_ms: u64,
    /// Length of a critical section, in milliseconds; 0 for an empty section
    pub(crate) section_ms: u64,
    /// Pause of a task between two critical sections, in milliseconds
    pub(crate) think_ms: u64,
    /// Time limit of a waiter, in milliseconds; a waiter that does not get the lock in this time
    /// counts as lost
    pub(crate) patience_ms: u64,
    /// File for the records
    pub(crate) file: PathBuf,
    /// The runtime of a client in Rust; tokio's default if not specified
    #[arg(long)]
    pub(crate) runtime: Option<Runtime>,
    /// Seed of the random arrival times
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
}

/// Work of a client's tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Work {
    /// All tasks, of all processes, repeatedly take one key.
    Hot,
    /// Each task repeatedly takes a separate key.
    Distinct,
    /// Starts a new task whenever a pair is due. Each task takes a separate key once.
    Open,
    /// Takes `tasks` keys, spread over a renewal interval, and keeps them renewed.
    Keep,
    /// Takes `tasks` keys as fast as it can, and keeps them renewed.
    KeepBurst,
    /// Takes `tasks` keys, and reports the memory of the client for each key.
    WeighHeld,
    /// Lets `tasks` callers wait, and reports the memory of the client for each caller.
    WeighWaiting,
    /// Runs `tasks` calls, each with a separate key, and reports the server's memory for each
    /// result.
    WeighResults,
    /// Runs `tasks` pairs (acquire and release) one after another, under valgrind.
    Pairs,
}

impl Work {
    /// Returns the value's name on the command line.
    fn name(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

impl Plan {
    /// Returns the plan as command-line arguments.
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
        // Programs in other languages and earlier builds accept only the arguments above. So the
        // options below are added only if they are needed.
        if let Some(runtime) = self.runtime {
            arguments.extend(["--runtime".to_owned(), runtime.name().to_owned()]);
        }
        if self.work == Work::Open {
            arguments.extend(["--seed".to_owned(), self.seed.to_string()]);
        }
        arguments
    }

    /// Returns the URL of each master.
    pub(crate) fn masters(&self) -> impl Iterator<Item = &str> {
        self.url.split(',')
    }

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
