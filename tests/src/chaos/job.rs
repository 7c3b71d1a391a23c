//! The job of a worker process of the harness.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::oracle::Mode;

/// The job of one process: its only argument, as JSON.
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
    /// After so many milliseconds of unbroken use its pools leave a key free for other clients.
    /// Without it, the default.
    #[serde(default)]
    pub make_way_ms: Option<u64>,
    /// After connecting the process makes this file with the ending `ready`, and waits for the one
    /// with `go`.
    pub gate: Option<PathBuf>,
    /// The file to which the process writes the size of its heap.
    pub gauge: Option<PathBuf>,
    /// How many workers its runtime has.
    pub threads: usize,
    /// True if its threads have the greatest nice value.
    pub idle: bool,
    /// Whether all lanes share a pool: that of the first.
    #[serde(default)]
    pub one_pool: bool,
    /// A fault of its log or its metrics.
    pub telemetry: Option<Telemetry>,
    /// The lanes, which run side by side.
    pub lanes: Vec<Lane>,
}

/// A log or a recorder of metrics that the user has given the process.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Telemetry {
    /// Which of the two.
    pub outlet: Outlet,
    /// The fault,
    pub trouble: Trouble,
    /// so long after the first calls, in milliseconds.
    pub after_ms: u64,
}

/// Where the engine reports events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outlet {
    /// A subscriber of `tracing`.
    Log,
    /// A recorder of `metrics`.
    Metrics,
}

/// A fault of the log or the recorder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Trouble {
    /// It writes to a full pipe, which has no reader for this time.
    Blocks {
        /// How long, in milliseconds.
        for_ms: u64,
    },
    /// It panics once.
    Panics,
}

impl Telemetry {
    /// The fault in words.
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
    /// The keys. Each call takes one at random, unless `in_turn`.
    pub keys: Vec<String>,
    /// The first copy always takes the first key, the second the second, and so on.
    pub in_turn: bool,
    /// How many tasks do the same, over one pool.
    pub copies: u32,
    /// The ttl, in milliseconds.
    pub ttl_ms: u64,
    /// How long to queue, in milliseconds.
    pub wait_ms: u64,
    /// Whether the lease is renewed.
    pub watchdog: bool,
    /// How the lock is held. With `Place` there are three places.
    pub mode: Mode,
    /// Further options of each call.
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

    /// The lane with a watchdog.
    #[must_use]
    pub fn watched(self) -> Self {
        Self {
            watchdog: true,
            ..self
        }
    }

    /// The lane with another mode.
    #[must_use]
    pub fn held_as(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }

    /// The lane with further options of each call.
    #[must_use]
    pub fn as_form(self, form: Form) -> Self {
        Self { form, ..self }
    }

    /// The lane on these keys.
    #[must_use]
    pub fn on(self, keys: &[&str]) -> Self {
        Self {
            keys: keys.iter().map(|key| (*key).to_owned()).collect(),
            ..self
        }
    }

    /// The lane with this time to queue.
    #[must_use]
    pub fn waits(self, wait_ms: u64) -> Self {
        Self { wait_ms, ..self }
    }
}

/// Options of a call besides its mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Form {
    /// No options.
    Plain,
    /// Two of the lane's keys at once.
    Pair,
    /// The key stays locked after the body's end.
    Kept {
        /// How long, in milliseconds.
        ms: u64,
    },
    /// The body makes two `reentrant` calls for its key at once.
    Nesting,
    /// The result is kept, and answers later calls.
    Replayed {
        /// How long, in milliseconds.
        ms: u64,
        /// How many different requests there are for a key; each call makes one at random.
        requests: u64,
    },
    /// The lock is taken by a guard, which is released by hand.
    ByHand,
    /// The lock is taken by a guard, and downgraded to a share after the first work. Then the key
    /// is read twice.
    Downgrading {
        /// The guard's `max_hold`, in milliseconds; 0 for none.
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
        /// How long, in milliseconds.
        ms: u64,
        /// How long the body's destructor takes, in milliseconds.
        slow_drop_ms: u64,
    },
    /// Waits. Only the end of the wait or a loss polls it.
    Wait {
        /// How long, in milliseconds.
        ms: u64,
    },
    /// Sells one item from the shop and stays for good. When the lease is over, a task that the
    /// body has spawned writes too.
    Sell {
        /// Whether the shop compares fences.
        checked: bool,
    },
    /// Makes an order, in a table with a unique key, and waits.
    Order {
        /// How long to wait, in microseconds.
        pause_us: u64,
    },
    /// Blocks its thread in one poll.
    Block {
        /// How long, in milliseconds.
        ms: u64,
    },
}
