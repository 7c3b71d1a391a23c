//! The benchmarks (rows).

use crate::contestants::Contestant::{
    self, Advisory, Curator, DistributedLock, DistributedLockPostgres, EtcdConcurrency,
    HandWritten, Leasehold, LeaseholdBefore, LeaseholdOnRedis, LeaseholdReplayed, LeaseholdSingle,
    NodeRedlock, Poll50ms, RedisPy, Redisson, Redsync, Ring, Rslock, Upsert,
};
use crate::plan::Work;
use crate::row::{Clients, Engine, Row, Task, WINDOW_MS};
use crate::setup;

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
    Ring,
    Leasehold,
    Poll50ms,
    Rslock,
    DistributedLock,
    Redisson,
    Redsync,
    NodeRedlock,
    RedisPy,
];
/// Contestants for one key that many tasks take. `ring` is left out, because it takes no lock, and
/// only passes the right to run between processes.
const HOT: &[Contestant] = HANDED_OVER.split_at(1).1;
const KEEPERS: &[Contestant] = &[Leasehold, HandWritten];
const QUORUM: &[Contestant] = &[Leasehold, LeaseholdSingle, Rslock, NodeRedlock];
const POSTGRES: &[Contestant] = &[
    Leasehold,
    LeaseholdOnRedis,
    Upsert,
    Advisory,
    DistributedLockPostgres,
];
/// The contestants on PostgreSQL that can run an open loop. `DistributedLockPostgres`, a separate
/// program, is left out, because it cannot.
const OPEN_POSTGRES: &[Contestant] = POSTGRES.split_at(4).0;
const ETCD: &[Contestant] = &[Leasehold, LeaseholdOnRedis, EtcdConcurrency];
const ZOOKEEPER: &[Contestant] = &[Leasehold, LeaseholdOnRedis, Curator];
const OPEN_SESSIONS: &[Contestant] = &[Leasehold, LeaseholdOnRedis];
const BEFORE: &[Contestant] = &[Leasehold, LeaseholdBefore];
const SERVICES: &[Contestant] = &[Leasehold, HandWritten, Rslock];
const REPLAYED: &[Contestant] = &[LeaseholdReplayed];
const WAITERS: &[Contestant] = &[Leasehold, Poll50ms, Rslock, DistributedLock];

/// The benchmarks that run in the default setup.
pub(crate) const ROWS: &[Row] = &[
    distinct(
        "uncontended",
        "a lock that no other task wants, taken and released by one task",
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
        title: "a lock that no other task wants, on a quorum of 3 masters; `leasehold_single` on one of them",
        contestants: QUORUM,
        task: Task::Clients(Clients {
            masters: 3,
            ..clients(Work::Distinct, 1)
        }),
        setups: &[],
    },
    on(
        Engine::Postgres,
        "postgres_uncontended",
        "as `uncontended`, on a PostgreSQL with every commit on disk",
        Work::Distinct,
        (1, 1),
        POSTGRES,
    ),
    on(
        Engine::Postgres,
        "postgres_distinct_64",
        "as `distinct_64`, on PostgreSQL",
        Work::Distinct,
        (1, 64),
        POSTGRES,
    ),
    on(
        Engine::Postgres,
        "postgres_hot_4x16_0ms",
        "as `hot_4x16_0ms`, on PostgreSQL",
        Work::Hot,
        (4, 16),
        POSTGRES,
    ),
    on(
        Engine::Postgres,
        "postgres_open_200",
        "as `open_200`, on PostgreSQL",
        Work::Open,
        (1, 200),
        OPEN_POSTGRES,
    ),
    on(
        Engine::Postgres,
        "postgres_open_1000",
        "as `open_1000`, on PostgreSQL",
        Work::Open,
        (1, 1_000),
        OPEN_POSTGRES,
    ),
    on(
        Engine::Postgres,
        "postgres_open_3000",
        "as `open_1000`, at 3,000 a second, on PostgreSQL",
        Work::Open,
        (1, 3_000),
        OPEN_POSTGRES,
    ),
    on(
        Engine::Etcd,
        "etcd_uncontended",
        "as `uncontended`, on one etcd that has every change on disk",
        Work::Distinct,
        (1, 1),
        ETCD,
    ),
    on(
        Engine::Etcd,
        "etcd_distinct_64",
        "as `distinct_64`, on etcd",
        Work::Distinct,
        (1, 64),
        ETCD,
    ),
    on(
        Engine::Etcd,
        "etcd_hot_4x16_0ms",
        "as `hot_4x16_0ms`, on etcd",
        Work::Hot,
        (4, 16),
        ETCD,
    ),
    on(
        Engine::Etcd,
        "etcd_open_1000",
        "as `open_1000`, on etcd",
        Work::Open,
        (1, 1_000),
        OPEN_SESSIONS,
    ),
    on(
        Engine::ZooKeeper,
        "zookeeper_uncontended",
        "as `uncontended`, on one ZooKeeper that has every change on disk",
        Work::Distinct,
        (1, 1),
        ZOOKEEPER,
    ),
    on(
        Engine::ZooKeeper,
        "zookeeper_distinct_64",
        "as `distinct_64`, on ZooKeeper",
        Work::Distinct,
        (1, 64),
        ZOOKEEPER,
    ),
    on(
        Engine::ZooKeeper,
        "zookeeper_hot_4x16_0ms",
        "as `hot_4x16_0ms`, on ZooKeeper",
        Work::Hot,
        (4, 16),
        ZOOKEEPER,
    ),
    on(
        Engine::ZooKeeper,
        "zookeeper_open_1000",
        "as `open_1000`, on ZooKeeper",
        Work::Open,
        (1, 1_000),
        OPEN_SESSIONS,
    ),
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
        title: "an annotated function on a store that does nothing and on memory://, one that blocks its thread, and the gate alone, without a server",
        contestants: &[Leasehold],
        task: Task::Overhead,
        setups: &[],
    },
    Row {
        name: "pair",
        title: "a lock that no other task wants, taken and released by one task on a current-thread runtime, counted by valgrind",
        contestants: SERVICES,
        task: Task::Pair,
        setups: &[],
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
    many(
        "memory_result",
        "memory of the server for each result of 500 bytes that `replay` keeps",
        Work::WeighResults,
        100_000,
        REPLAYED,
    ),
];

/// Benchmarks that resemble services, on both runtimes, on an idle and on a busy machine. In
/// `open_…`, requests arrive at a given average rate. The benchmarks `closed_…` repeat others, such
/// as `distinct_16`, in these setups.
pub(crate) const SERVICE_ROWS: &[Row] = &[
    open(
        "open_200",
        "200 pairs a second, each with a key of its own",
        200,
        1_600,
    ),
    open(
        "open_1000",
        "1,000 pairs a second, each with a key of its own",
        1_000,
        1_200,
    ),
    open(
        "open_5000",
        "5,000 pairs a second, each with a key of its own",
        5_000,
        800,
    ),
    open(
        "open_20000",
        "20,000 pairs a second, each with a key of its own",
        20_000,
        600,
    ),
    closed("closed_1", "as `uncontended`", 1),
    closed("closed_16", "as `distinct_16`", 16),
    closed("closed_64", "as `distinct_64`", 64),
    closed("closed_256", "as `distinct_256`", 256),
    closed("closed_1024", "as `distinct_1024`", 1_024),
];

/// The benchmarks of `--against`. They have separate names, even where another benchmark does the
/// same work, because their figures come from another run.
pub(crate) const AGAINST: &[Row] = &[
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

const fn on(
    engine: Engine,
    name: &'static str,
    title: &'static str,
    work: Work,
    (processes, tasks): (u32, u32),
    contestants: &'static [Contestant],
) -> Row {
    let clients = Clients {
        engine,
        processes,
        ..clients(work, tasks)
    };
    row(name, title, clients, contestants)
}

const fn hot(
    name: &'static str,
    title: &'static str,
    processes: u32,
    tasks: u32,
    section_ms: u64,
) -> Row {
    let clients = Clients {
        processes,
        section_ms,
        // Without a pause, the task that releases the lock takes it again at once. A contestant
        // that polls would then seldom pass the lock to another task, and would look better than it
        // is. Empty sections have no pause, because with pauses only the pauses would be measured.
        think_ms: 5 * section_ms,
        ..clients(Work::Hot, tasks)
    };
    row(name, title, clients, HOT)
}

const fn many(
    name: &'static str,
    title: &'static str,
    work: Work,
    tasks: u32,
    contestants: &'static [Contestant],
) -> Row {
    row(name, title, clients(work, tasks), contestants)
}

/// Creates a benchmark of tasks that take and release their locks without a pause, in the setups of
/// a service.
const fn closed(name: &'static str, title: &'static str, tasks: u32) -> Row {
    let clients = Clients {
        window_ms: 800,
        ..clients(Work::Distinct, tasks)
    };
    Row {
        setups: setup::ON_LOOPBACK,
        ..row(name, title, clients, SERVICES)
    }
}

/// Creates a benchmark of pairs (an acquire and a release) that are due at random times, on average
/// `a_second` pairs per second. Lower rates have longer windows.
const fn open(name: &'static str, title: &'static str, a_second: u32, window_ms: u64) -> Row {
    let clients = Clients {
        window_ms,
        ..clients(Work::Open, a_second)
    };
    Row {
        setups: setup::EVERY,
        ..row(name, title, clients, SERVICES)
    }
}

const fn row(
    name: &'static str,
    title: &'static str,
    clients: Clients,
    contestants: &'static [Contestant],
) -> Row {
    Row {
        name,
        title,
        contestants,
        task: Task::Clients(clients),
        setups: &[],
    }
}

/// Returns the default clients: one process on one Redis, with empty critical sections.
const fn clients(work: Work, tasks: u32) -> Clients {
    Clients {
        work,
        masters: 1,
        engine: Engine::Redis,
        processes: 1,
        tasks,
        section_ms: 0,
        think_ms: 0,
        window_ms: WINDOW_MS,
    }
}
