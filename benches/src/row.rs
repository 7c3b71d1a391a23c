//! A row: one kind of work, done by several contestants in one run.

use crate::contestants::Contestant;
use crate::plan::Work;
use crate::setup::Setup;

/// One kind of work.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    /// Its name in the results.
    pub(crate) name: &'static str,
    /// The title for readers.
    pub(crate) title: &'static str,
    /// The contestants.
    pub(crate) contestants: &'static [Contestant],
    /// The work.
    pub(crate) task: Task,
    /// The setups, each with results of its own. If empty, the row runs once in the default setup.
    pub(crate) setups: &'static [Setup],
}

/// The work of a row.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Task {
    /// By client processes on an engine.
    Clients(Clients),
    /// In this process, without a server: what the attribute costs.
    Overhead,
    /// By a client process under valgrind: what a pair costs, without a clock.
    Pair,
}

/// The shape of a row that client processes do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clients {
    pub(crate) work: Work,
    /// How many independent servers there are; more than one are a quorum.
    pub(crate) masters: usize,
    /// Where the locks are.
    pub(crate) engine: Engine,
    pub(crate) processes: u32,
    /// The tasks of each process; leases or waiters in the rows that keep or weigh.
    pub(crate) tasks: u32,
    pub(crate) section_ms: u64,
    pub(crate) think_ms: u64,
    /// The length of a measurement, unless the command line says otherwise.
    pub(crate) window_ms: u64,
}

/// Where the locks of a row are. With another engine than Redis there is a Redis as well, for one
/// contestant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Engine {
    Redis,
    Postgres,
    Etcd,
    ZooKeeper,
}

/// The usual length of a measurement.
pub(crate) const WINDOW_MS: u64 = 3_000;

impl Clients {
    /// How long a caller waits at most, in ms, when all are served in turn and a hand-over takes no
    /// time.
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
