//! The job of a worker process of the harness.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::oracle::Mode;

/// The job of one process: its only argument, as JSON.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Job {
    /// The URL of the store.
    pub url: String,
    /// The file to which the bodies write their notes.
    pub history: PathBuf,
    /// The folder with the counters that bodies read and write.
    pub ledger: PathBuf,
    /// The seed of the process's random choices.
    pub seed: u64,
    /// Time limit of one request, in milliseconds.
    pub io_timeout_ms: u64,
    /// Time of unbroken use of a key, in milliseconds, after which the process's pools leave the
    /// key free for clients without a queue. `None` for the default; 0 for never.
    #[serde(default)]
    pub make_way_ms: Option<u64>,
    /// Base path of two files. After connecting, the process creates the file with the extension
    /// `ready`, and waits for the file with the extension `go`.
    pub gate: Option<PathBuf>,
    /// The file to which the process writes the size of its heap and the number of bodies that have
    /// begun.
    pub gauge: Option<PathBuf>,
    /// Number of worker threads of the process's runtime.
    pub threads: usize,
    /// True if the threads of the process's runtime have the lowest priority (the greatest nice
    /// value).
    pub idle: bool,
    /// True if all groups of calls (`lanes`) share one pool.
    #[serde(default)]
    pub one_pool: bool,
    /// A fault of the process's log or of its metrics, if any.
    pub telemetry: Option<Telemetry>,
    /// The groups of calls. All groups run concurrently.
    pub lanes: Vec<Lane>,
}

/// A fault of the log or of the recorder of metrics that the user has installed in the process.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Telemetry {
    /// The log or the recorder.
    pub outlet: Outlet,
    /// The fault.
    pub trouble: Trouble,
    /// Time from the start of the calls to the fault, in milliseconds.
    pub after_ms: u64,
}

/// A receiver of leasehold's reports in the process.
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
    /// The log or recorder writes to a full pipe, which nobody reads for some time.
    Blocks {
        /// The time for which nobody reads the pipe, in milliseconds.
        for_ms: u64,
    },
    /// The log or recorder panics once.
    Panics,
}

impl Telemetry {
    /// Returns the name of the fault, for results.
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

/// A group of calls of one annotated function: one or more tasks make them, over one pool.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Lane {
    /// The keys. Each call takes a random key, unless `in_turn` is set.
    pub keys: Vec<String>,
    /// True if each copy (task) has a fixed key: the first copy has the first key, and so on.
    pub in_turn: bool,
    /// Number of tasks ("copies") that make these calls concurrently, over one pool.
    pub copies: u32,
    /// The ttl, in milliseconds.
    pub ttl_ms: u64,
    /// The longest time to wait in the queue, in milliseconds.
    pub wait_ms: u64,
    /// True if the lease is renewed.
    pub watchdog: bool,
    /// The mode of the lock. `Place` is one of three permits.
    pub mode: Mode,
    /// The form of each call, such as two keys at once.
    pub form: Form,
    /// True if the bodies return an error.
    pub fails: bool,
    /// The work inside the lock.
    pub work: Work,
    /// Number of calls of each copy; 0 for calls until the process ends.
    pub times: u64,
    /// One in this many calls is dropped within 20 ms; 0 means that no call is dropped.
    pub drop_one_in: u64,
    /// One in this many bodies blocks its thread for up to 30 ms; 0 means that no body blocks.
    pub block_one_in: u64,
}

impl Lane {
    /// Returns a group of calls with one task, whose body stays inside the lock of `key` for
    /// `stay_ms`.
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

    /// Makes the calls renew their leases.
    #[must_use]
    pub fn watched(self) -> Self {
        Self {
            watchdog: true,
            ..self
        }
    }

    /// Sets the mode of the locks.
    #[must_use]
    pub fn held_as(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }

    /// Sets the form of the calls.
    #[must_use]
    pub fn as_form(self, form: Form) -> Self {
        Self { form, ..self }
    }

    /// Replaces the keys.
    #[must_use]
    pub fn on(self, keys: &[&str]) -> Self {
        Self {
            keys: keys.iter().map(|key| (*key).to_owned()).collect(),
            ..self
        }
    }

    /// Sets the longest time that a call waits in the queue, in milliseconds.
    #[must_use]
    pub fn waits(self, wait_ms: u64) -> Self {
        Self { wait_ms, ..self }
    }
}

/// Form of a call: its options besides the mode, or another interface than the attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Form {
    /// No options.
    Plain,
    /// Each call takes two of `Lane::keys` at once.
    Pair,
    /// The key stays locked after the body's end.
    Kept {
        /// Time for which the key stays locked, in milliseconds.
        ms: u64,
    },
    /// The body makes two concurrent `reentrant` calls for its key.
    Nesting,
    /// The result is kept, and later calls get it as their answer.
    Replayed {
        /// Time for which the result is kept, in milliseconds.
        ms: u64,
        /// Number of different requests for a key. Each call makes one at random.
        requests: u64,
    },
    /// The call takes the lock as a guard, and releases the guard explicitly.
    ByHand,
    /// The call waits until it is the leader (`lead`), and stays the leader until its body ends.
    /// After a lost lease, it waits again.
    Leading,
    /// The call takes the lock as a guard, and downgrades it to a shared lock after its work. Then
    /// the body reads the key's counter twice (after `Work::Count`) or does its work again.
    Downgrading {
        /// The guard's `max_hold`, in milliseconds; 0 for none.
        max_hold_ms: u64,
    },
}

/// The work inside the lock.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub enum Work {
    /// Reads the key's counter, sleeps, and writes the value plus one.
    Count {
        /// The longest sleep, in microseconds.
        pause_us: u64,
    },
    /// Reads the key's counter, sleeps, and reads it again.
    Read {
        /// The longest sleep, in microseconds.
        pause_us: u64,
    },
    /// Stays inside the lock, and is polled every millisecond.
    Stay {
        /// Duration of the stay, in milliseconds.
        ms: u64,
        /// Duration of the body's destructor, in milliseconds.
        slow_drop_ms: u64,
    },
    /// Waits inside the lock. The body is polled only at the end of the wait or after a loss.
    Wait {
        /// Duration of the wait, in milliseconds.
        ms: u64,
    },
    /// Sells one item from the shop and then stays inside the lock forever. After the lease has
    /// ended and a newer holder has used the shop, a task spawned by the body tries to sell, too.
    Sell {
        /// True if the shop compares fences.
        checked: bool,
    },
    /// Inserts a row for the key into a table of orders, unless there is one. Then waits.
    Order {
        /// Duration of the wait, in microseconds.
        pause_us: u64,
    },
    /// Blocks its thread in one poll.
    Block {
        /// Duration of the block, in milliseconds.
        ms: u64,
    },
}
