//! What is measured: each row is one kind of work, done by several contestants in one run.

use clap::ValueEnum as _;

use crate::args::Pace;
use crate::contestants::Contestant::{
    self, Baton, DistributedLock, HandWritten, Leasehold, LeaseholdBefore, LeaseholdSingle,
    NodeRedlock, Poll50ms, RedisPy, Redisson, Redsync, Rslock,
};
use crate::plan::Work;

/// One kind of work.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    /// Its name in the results.
    pub(crate) name: &'static str,
    /// For people.
    pub(crate) title: &'static str,
    /// Who does it.
    pub(crate) contestants: &'static [Contestant],
    /// What is done.
    pub(crate) task: Task,
}

/// What is done in a row.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Task {
    /// By client processes on a Redis.
    Clients(Clients),
    /// In this process, without a server: what the attribute costs.
    Overhead,
}

/// The shape of a row that client processes do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clients {
    pub(crate) work: Work,
    /// How many independent servers there are; more than one are a quorum.
    pub(crate) masters: usize,
    pub(crate) processes: u32,
    /// In each process; leases or waiters in the rows that keep or weigh.
    pub(crate) tasks: u32,
    pub(crate) section_ms: u64,
    pub(crate) think_ms: u64,
}

impl Clients {
    /// How long a caller waits at most, in ms, when all are served in turn and passing on takes no time.
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

const ALONE: &[Contestant] = &[
    Leasehold,
    HandWritten,
    Rslock,
    DistributedLock,
    Redisson,
    Redsync,
    NodeRedlock,
    RedisPy,
];
const RUST: &[Contestant] = &[Leasehold, HandWritten, Rslock, DistributedLock];
const HANDED_OVER: &[Contestant] = &[
    Baton,
    Leasehold,
    Poll50ms,
    Rslock,
    DistributedLock,
    Redisson,
    Redsync,
    NodeRedlock,
    RedisPy,
];
/// In one process nothing is passed on among processes.
const HOT: &[Contestant] = HANDED_OVER.split_at(1).1;
const KEEPERS: &[Contestant] = &[Leasehold, HandWritten];
const QUORUM: &[Contestant] = &[Leasehold, LeaseholdSingle, Rslock, NodeRedlock];
const BEFORE: &[Contestant] = &[Leasehold, LeaseholdBefore];
const WAITERS: &[Contestant] = &[Leasehold, Poll50ms, Rslock, DistributedLock];

/// All rows.
pub(crate) const ROWS: &[Row] = &[
    distinct(
        "uncontended",
        "a lock that nobody else wants, taken and released by one task",
        1,
        ALONE,
    ),
    distinct("distinct_1", "1 task with a key of its own", 1, RUST),
    distinct(
        "distinct_16",
        "16 tasks, each with a key of its own",
        16,
        RUST,
    ),
    distinct(
        "distinct_64",
        "64 tasks, each with a key of its own",
        64,
        ALONE,
    ),
    distinct(
        "distinct_256",
        "256 tasks, each with a key of its own",
        256,
        RUST,
    ),
    distinct(
        "distinct_1024",
        "1024 tasks, each with a key of its own",
        1024,
        RUST,
    ),
    hot(
        "hot_1x64_0ms",
        "one key, 64 tasks in one process, empty section",
        1,
        64,
        0,
    ),
    Row {
        contestants: HANDED_OVER,
        ..hot(
            "hot_4x16_0ms",
            "one key, 4 processes of 16 tasks, empty section",
            4,
            16,
            0,
        )
    },
    hot(
        "hot_4x16_1ms",
        "one key, 4 processes of 16 tasks, section of 1 ms, pause of 5 ms",
        4,
        16,
        1,
    ),
    Row {
        name: "redlock_uncontended",
        title: "a lock that nobody else wants, on a quorum of 3 masters; `leasehold_single` on one of them",
        contestants: QUORUM,
        task: Task::Clients(Clients {
            work: Work::Distinct,
            masters: 3,
            processes: 1,
            tasks: 1,
            section_ms: 0,
            think_ms: 0,
        }),
    },
    many(
        "renew_10k",
        "10,000 leases kept renewed, ttl 10 s",
        Work::Keep,
        10_000,
        KEEPERS,
    ),
    many(
        "renew_100k",
        "100,000 leases kept renewed, ttl 10 s",
        Work::Keep,
        100_000,
        KEEPERS,
    ),
    many(
        "renew_100k_burst",
        "the same, all taken as fast as possible",
        Work::KeepBurst,
        100_000,
        KEEPERS,
    ),
    Row {
        name: "overhead",
        title: "an annotated function on a store that does nothing and on memory://, and the gate alone, without a server",
        contestants: &[],
        task: Task::Overhead,
    },
    many(
        "memory",
        "memory for each held lease, renewal included",
        Work::WeighHeld,
        20_000,
        KEEPERS,
    ),
    many(
        "memory_waiter",
        "memory for each waiting call, its task included",
        Work::WeighWaiting,
        4_500,
        WAITERS,
    ),
];

/// The rows of `--against`, with names of their own: their figures are of another run than those of the same work above.
const AGAINST: &[Row] = &[
    distinct(
        "before_uncontended",
        "as `uncontended`, against an earlier build",
        1,
        BEFORE,
    ),
    distinct(
        "before_distinct_64",
        "as `distinct_64`, against an earlier build",
        64,
        BEFORE,
    ),
    Row {
        contestants: BEFORE,
        ..hot(
            "before_hot_1x64_0ms",
            "as `hot_1x64_0ms`, against an earlier build",
            1,
            64,
            0,
        )
    },
];

const fn distinct(
    name: &'static str,
    title: &'static str,
    tasks: u32,
    contestants: &'static [Contestant],
) -> Row {
    many(name, title, Work::Distinct, tasks, contestants)
}

const fn hot(
    name: &'static str,
    title: &'static str,
    processes: u32,
    tasks: u32,
    section_ms: u64,
) -> Row {
    // Without a pause whoever releases takes the lock again at once, and polling looks better than it is. With an
    // empty section that pause would be all that is measured.
    let think_ms = 5 * section_ms;
    Row {
        name,
        title,
        contestants: HOT,
        task: Task::Clients(Clients {
            work: Work::Hot,
            masters: 1,
            processes,
            tasks,
            section_ms,
            think_ms,
        }),
    }
}

const fn many(
    name: &'static str,
    title: &'static str,
    work: Work,
    tasks: u32,
    contestants: &'static [Contestant],
) -> Row {
    Row {
        name,
        title,
        contestants,
        task: Task::Clients(Clients {
            work,
            masters: 1,
            processes: 1,
            tasks,
            section_ms: 0,
            think_ms: 0,
        }),
    }
}

/// Every row that there is.
pub(crate) fn all() -> impl Iterator<Item = &'static Row> {
    ROWS.iter().chain(AGAINST)
}

/// The rows with these names, or those of the pace; an unknown name is an error that lists the known ones.
pub(crate) fn chosen(names: &[String], pace: Pace) -> Result<Vec<&'static Row>, String> {
    if names.is_empty() {
        return Ok(match pace {
            Pace::Against => AGAINST.iter().collect(),
            _ => ROWS.iter().filter(|row| pace.includes(row.name)).collect(),
        });
    }
    let find = |name: &String| {
        let found = all().find(|row| row.name == name);
        found.ok_or_else(|| {
            let known: Vec<_> = all().map(|row| row.name).collect();
            format!("there is no row `{name}`; there are {}", known.join(", "))
        })
    };
    names.iter().map(find).collect()
}

/// Who does a row: those asked for, or all; the seeded faults only if asked for.
pub(crate) fn contestants(row: &Row, wanted: &[Contestant], pace: Pace) -> Vec<Contestant> {
    let others = pace != Pace::Quick;
    if wanted.is_empty() {
        let all = row.contestants.iter().copied();
        return all.filter(|who| others || who.peer().is_none()).collect();
    }
    let seeded = [Contestant::SeededOverlap, Contestant::SeededLoss];
    let fits = |who: &&Contestant| row.contestants.contains(who) || seeded.contains(who);
    Contestant::value_variants()
        .iter()
        .filter(|who| wanted.contains(who))
        .filter(fits)
        .copied()
        .collect()
}
