//! A row is one benchmark: one kind of work, done by several contestants in one run.

use crate::contestants::Contestant;
use crate::plan::Work;
use crate::setup::Setup;

/// One kind of work.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    /// Name in the results.
    pub(crate) name: &'static str,
    /// The title for readers.
    pub(crate) title: &'static str,
    pub(crate) contestants: &'static [Contestant],
    pub(crate) task: Task,
    /// The setups, each with separate results. If empty, the benchmark runs in the default setup
    /// only.
    pub(crate) setups: &'static [Setup],
}

/// The work of a benchmark.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Task {
    /// Work of client processes on an engine.
    Clients(Clients),
    /// The cost of the attribute, in this process and without a server.
    Overhead,
    /// The instructions and allocations of a pair, which valgrind counts in a client process.
    Pair,
}

/// The shape of a benchmark that runs client processes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clients {
    pub(crate) work: Work,
    /// Number of independent servers. More than one form a quorum.
    pub(crate) masters: usize,
    pub(crate) engine: Engine,
    pub(crate) processes: u32,
    /// Number of tasks in each process. For some works, it is a number of leases, calls or pairs
    /// instead: see `tasks` in `plan.rs`.
    pub(crate) tasks: u32,
    pub(crate) section_ms: u64,
    pub(crate) think_ms: u64,
    /// Length of a measurement, unless the command line specifies another one.
    pub(crate) window_ms: u64,
}

/// The engine that stores the locks of a benchmark. If it is not Redis, a Redis is started too, on
/// which one contestant runs for comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Engine {
    Redis,
    Postgres,
    Etcd,
    ZooKeeper,
}

/// Default length of a measurement.
pub(crate) const WINDOW_MS: u64 = 3_000;

impl Clients {
    /// Returns the longest wait of a caller in ms with an ideal lock. All callers get this lock in
    /// turn, and passing it on takes no time.
    pub(crate) fn fair_wait_ms(&self, section_ms: f64) -> f64 {
        let others = f64::from(self.processes * self.tasks - 1);
        #[allow(clippy::cast_precision_loss, reason = "a few milliseconds")]
        let think_ms = self.think_ms as f64;
        (others * section_ms - think_ms).max(0.0)
    }

    pub(crate) fn keeps(&self) -> bool {
        matches!(self.work, Work::Keep | Work::KeepBurst)
    }
}
