//! The contestants. Each contestant takes a lock, runs a body inside the lock, and releases the
//! lock.

pub(crate) mod advisory;
pub(crate) mod distributed_lock;
pub(crate) mod hand_written;
pub(crate) mod leasehold;
pub(crate) mod polling;
#[cfg(feature = "replay")]
pub(crate) mod replayed;
pub(crate) mod ring;
pub(crate) mod rslock;
pub(crate) mod seeded;
pub(crate) mod upsert;
pub(crate) mod verified;

use std::fmt;
use std::future::Future;

use clap::ValueEnum;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Contestant {
    /// This project.
    Leasehold,
    /// An earlier build of this project: the program specified by `--against`.
    LeaseholdBefore,
    /// This project with metrics and spans on: the program specified by `--observed`.
    LeaseholdObserved,
    /// This project with `replay`, which keeps the result of each call.
    LeaseholdReplayed,
    /// This project: each critical section runs a transaction that verifies the lock.
    LeaseholdVerified,
    /// This project, but only on the first of several masters.
    LeaseholdSingle,
    /// This project on one Redis, in a benchmark of another engine.
    LeaseholdOnRedis,
    /// A lock as a row of a PostgreSQL table, taken by one statement, as in `ShedLock`.
    Upsert,
    /// `pg_advisory_lock` with the crate sqlx.
    Advisory,
    /// The crate distributed-lock-postgres, in a separate program, which keeps its dependencies out
    /// of this build.
    DistributedLockPostgres,
    /// `SET NX PX` and compare-and-delete, by hand, on one multiplexed connection.
    HandWritten,
    /// Like `hand_written`, but with a new attempt every 50 ms.
    #[value(name = "poll_50ms")]
    Poll50ms,
    /// The crate rslock.
    Rslock,
    /// The crate distributed-lock.
    DistributedLock,
    /// The lock of etcd's client for Go, package `concurrency`.
    EtcdConcurrency,
    /// Curator's lock on ZooKeeper, Java.
    Curator,
    /// No lock: the cost of passing the right to run from process to process with the crate redis.
    Ring,
    /// Redisson, Java.
    Redisson,
    /// redsync, Go.
    Redsync,
    /// node-redlock, Node.
    NodeRedlock,
    /// redis-py, Python.
    RedisPy,
    /// No lock and no server: the harness's own cost in an open loop.
    Nothing,
    /// No lock at all. The harness must detect the overlaps.
    #[value(hide = true)]
    SeededOverlap,
    /// A lock that one of its callers never gets. The harness must detect the lost waiter.
    #[value(hide = true)]
    SeededLoss,
    /// A call that sometimes blocks its thread. The harness must measure the pairs due meanwhile as
    /// late.
    #[value(hide = true)]
    SeededStall,
    /// A call that computes while other tasks wait. The harness must measure its CPU time and the
    /// delay of the other tasks.
    #[value(hide = true)]
    SeededSpin,
}

impl Contestant {
    /// True for a control: a contestant that checks the harness, or this project with an option. If
    /// the command line names a control, it takes part in any benchmark.
    pub(crate) fn is_control(self) -> bool {
        matches!(
            self,
            Self::Nothing
                | Self::LeaseholdObserved
                | Self::LeaseholdReplayed
                | Self::LeaseholdVerified
                | Self::SeededOverlap
                | Self::SeededLoss
                | Self::SeededStall
                | Self::SeededSpin
        )
    }

    /// True if this is the present build of this project, with any option.
    pub(crate) fn is_ours(self) -> bool {
        matches!(
            self,
            Self::Leasehold
                | Self::LeaseholdObserved
                | Self::LeaseholdReplayed
                | Self::LeaseholdVerified
                | Self::LeaseholdSingle
                | Self::LeaseholdOnRedis
        )
    }

    /// Returns the name of the contestant's folder in `--peers`, if it is a separate program.
    pub(crate) fn peer(self) -> Option<&'static str> {
        match self {
            Self::DistributedLockPostgres => Some("distributed_lock_postgres"),
            Self::EtcdConcurrency => Some("etcd_concurrency"),
            Self::Curator => Some("curator"),
            Self::Redisson => Some("redisson"),
            Self::Redsync => Some("redsync"),
            Self::NodeRedlock => Some("node_redlock"),
            Self::RedisPy => Some("redis_py"),
            _ => None,
        }
    }
}

impl fmt::Display for Contestant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        f.pad(value.as_ref().map_or("", |value| value.get_name()))
    }
}

/// An error of a contestant or of the harness.
pub(crate) type Fault = Box<dyn std::error::Error + Send + Sync>;

/// A lock service, which runs a body inside a lock.
pub(crate) trait Locks: Send + Sync + 'static {
    /// Runs `body` inside the lock `key`. Returns when the release is confirmed.
    fn inside<B>(
        &self,
        key: &str,
        body: B,
    ) -> impl Future<Output = Result<B::Output, Fault>> + Send
    where
        B: Future + Send,
        B::Output: Send;
}

/// A lock service that renews its locks.
pub(crate) trait Keeps: Send + Sync + 'static {
    /// The type of a renewed lock.
    type Lease: Kept;

    /// Takes `key` and keeps it renewed.
    fn keep(&self, key: &str) -> impl Future<Output = Result<Self::Lease, Fault>> + Send;
}

/// A lock with a running renewal.
pub(crate) trait Kept: Send + Sync + 'static {
    /// Returns the send time of the last confirmed request for the lock, possibly plus a constant:
    /// only differences of send times are measured. Returns `None` after the lock was lost.
    fn sent(&self) -> Option<u64>;
}
