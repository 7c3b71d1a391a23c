//! What a worker process of the harness is to do.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::oracle::Mode;

/// The work of one process; its only argument, as JSON.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Job {
    /// The store.
    pub url: String,
    /// The history that its bodies note to.
    pub history: PathBuf,
    /// The folder of the counters.
    pub ledger: PathBuf,
    /// The seed of its random choices.
    pub seed: u64,
    /// How long one request may take, in milliseconds.
    pub io_timeout_ms: u64,
    /// After so long of unbroken use its pools leave a key free for other clients, in milliseconds; without it, the default.
    #[serde(default)]
    pub make_way_ms: Option<u64>,
    /// After connecting it makes this file with the ending `ready` and waits for the one with `go`.
    pub gate: Option<PathBuf>,
    /// The file to which it tells the size of its heap.
    pub gauge: Option<PathBuf>,
    /// How many workers its runtime has.
    pub threads: usize,
    /// Whether they run only when nothing else wants the processor.
    pub idle: bool,
    /// Whether all lanes share a pool, the one that is made for the first.
    #[serde(default)]
    pub one_pool: bool,
    /// What its log and its metrics do.
    pub telemetry: Option<Telemetry>,
    /// What runs side by side.
    pub lanes: Vec<Lane>,
}

/// A log or a recorder of metrics that the user has given the process.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Telemetry {
    /// Which of the two.
    pub outlet: Outlet,
    /// What happens to it,
    pub trouble: Trouble,
    /// so long after the first calls, in milliseconds.
    pub after_ms: u64,
}

/// Where a process tells what happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outlet {
    /// A subscriber of `tracing`.
    Log,
    /// A recorder of `metrics`.
    Metrics,
}

/// What goes wrong with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Trouble {
    /// It writes to a pipe that is full and that nobody reads for so long.
    Blocks {
        /// For so long.
        for_ms: u64,
    },
    /// It panics once.
    Panics,
}

impl Telemetry {
    /// In words.
    pub fn name(&self) -> String {
        let outlet = match self.outlet {
            Outlet::Log => "log",
            Outlet::Metrics => "metrics recorder",
        };
        match self.trouble {
            Trouble::Blocks { .. } => format!("{outlet} blocks"),
            Trouble::Panics => format!("{outlet} panics"),
        }
    }
}

/// Calls of an annotated function, one after the other, over a pool of the lane's own.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Lane {
    /// The keys; each call takes one at random, unless `in_turn`.
    pub keys: Vec<String>,
    /// The first copy always takes the first key, the second the second, and so on.
    pub in_turn: bool,
    /// So many tasks do the same, over one pool.
    pub copies: u32,
    /// The ttl, in milliseconds.
    pub ttl_ms: u64,
    /// How long to queue, in milliseconds.
    pub wait_ms: u64,
    /// Whether the lease is renewed.
    pub watchdog: bool,
    /// How the lock is held; of places there are three.
    pub mode: Mode,
    /// What a call asks for besides.
    pub form: Form,
    /// Whether the bodies return an error.
    pub fails: bool,
    /// What happens inside the lock.
    pub work: Work,
    /// How many calls each copy makes; 0 for as long as the process lives.
    pub times: u64,
    /// One of so many calls is dropped within 20 ms; 0 for none.
    pub drop_one_in: u64,
    /// One of so many bodies blocks its thread for up to 30 ms; 0 for none.
    pub block_one_in: u64,
}

impl Lane {
    /// One task that stays inside `key`.
    pub fn stays(key: &str, ttl_ms: u64, stay_ms: u64) -> Self {
        Self {
            keys: vec![key.to_owned()],
            in_turn: false,
            copies: 1,
            ttl_ms,
            wait_ms: 0,
            watchdog: false,
            mode: Mode::Alone,
            form: Form::Plain,
            fails: false,
            work: Work::Stay {
                ms: stay_ms,
                slow_drop_ms: 0,
            },
            times: 1,
            drop_one_in: 0,
            block_one_in: 0,
        }
    }

    /// With a watchdog.
    #[must_use]
    pub fn watched(self) -> Self {
        Self {
            watchdog: true,
            ..self
        }
    }

    /// Held in another way than alone.
    #[must_use]
    pub fn held_as(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }

    /// Asks for something besides.
    #[must_use]
    pub fn as_form(self, form: Form) -> Self {
        Self { form, ..self }
    }

    /// On these keys.
    #[must_use]
    pub fn on(self, keys: &[&str]) -> Self {
        Self {
            keys: keys.iter().map(|key| (*key).to_owned()).collect(),
            ..self
        }
    }

    /// Queues for so long.
    #[must_use]
    pub fn waits(self, wait_ms: u64) -> Self {
        Self { wait_ms, ..self }
    }
}

/// What a call asks for besides how its lock is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Form {
    /// Nothing.
    Plain,
    /// Two of the lane's keys at once.
    Pair,
    /// The key stays for so long after the body's end.
    Kept {
        /// For so long.
        ms: u64,
    },
    /// The body makes two `reentrant` calls for its key at once.
    Nesting,
    /// The lock is taken by a guard, which is released by hand.
    ByHand,
    /// The lock is taken by a guard, and downgraded to a share when the work is done once; then the key is read twice.
    Downgrading {
        /// The lock is given up after so long; 0 for never.
        max_hold_ms: u64,
    },
}

/// What happens inside the lock.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub enum Work {
    /// Reads the key's counter, sleeps, and writes one more.
    Count {
        /// How long to sleep, in microseconds at most.
        pause_us: u64,
    },
    /// Reads the key's counter, sleeps, and reads it again.
    Read {
        /// How long to sleep, in microseconds at most.
        pause_us: u64,
    },
    /// Stays, polled every millisecond.
    Stay {
        /// For so long.
        ms: u64,
        /// The body's destructor takes so long.
        slow_drop_ms: u64,
    },
    /// Waits, and is polled by nothing but its own end or a loss.
    Wait {
        /// For so long.
        ms: u64,
    },
    /// Sells one from the shop and stays for good; when the lease is over, a task that it has left behind writes too.
    Sell {
        /// Whether the shop compares fences.
        checked: bool,
    },
    /// Blocks its thread in one poll.
    Block {
        /// For so long.
        ms: u64,
    },
}
