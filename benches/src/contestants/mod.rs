//! The contestants. Each one takes a lock, runs a body inside it, and releases the lock.

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

/// A contestant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Contestant {
    /// This project.
    Leasehold,
    /// An earlier build of this project: the program that `--against` names.
    LeaseholdBefore,
    /// This project with metrics and spans on: the program that `--observed` names.
    LeaseholdObserved,
    /// This project with `replay`: each result is kept.
    LeaseholdReplayed,
    /// This project, with a transaction in each section that verifies its lock.
    LeaseholdVerified,
    /// This project on the first of several masters alone.
    LeaseholdSingle,
    /// This project on one Redis, beside itself on another engine.
    LeaseholdOnRedis,
    /// A row for each lock in PostgreSQL, taken by one statement as `ShedLock` does it.
    Upsert,
    /// `pg_advisory_lock` with the crate sqlx.
    Advisory,
    /// The crate distributed-lock-postgres, whose dependencies are kept out of this build.
    DistributedLockPostgres,
    /// `SET NX PX` and compare-and-delete, by hand, on one multiplexed connection.
    HandWritten,
    /// The same, with a new try every 50 ms.
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
    /// No lock: the cost of handing one from process to process with the crate redis.
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
    /// Takes no lock at all: the checks must find it out.
    #[value(hide = true)]
    SeededOverlap,
    /// Forgets a waiter: the checks must find it out.
    #[value(hide = true)]
    SeededLoss,
    /// Blocks the thread now and then: the pairs that are due meanwhile must be seen to be late.
    #[value(hide = true)]
    SeededStall,
    /// Computes while other tasks wait: its CPU and their wait must be seen.
    #[value(hide = true)]
    SeededSpin,
}

impl Contestant {
    /// Whether the contestant takes part only when it is asked for, in any row.
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

    /// The folder of the contestant's program, if that is no part of this one.
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

/// Why a lock could not be taken or given back.
pub(crate) type Fault = Box<dyn std::error::Error + Send + Sync>;

/// A lock service as its users see it.
pub(crate) trait Locks: Send + Sync + 'static {
    /// Runs `body` inside the lock `key`; ends when the release is confirmed.
    fn inside<B>(
        &self,
        key: &str,
        body: B,
    ) -> impl Future<Output = Result<B::Output, Fault>> + Send
    where
        B: Future + Send,
        B::Output: Send;
}

/// A lock service that renews.
pub(crate) trait Keeps: Send + Sync + 'static {
    /// A lock that is kept renewed.
    type Lease: Kept;

    /// Takes `key` and keeps it renewed.
    fn keep(&self, key: &str) -> impl Future<Output = Result<Self::Lease, Fault>> + Send;
}

/// A lock that is kept renewed.
pub(crate) trait Kept: Send + Sync + 'static {
    /// When the last confirmed request was sent, up to a constant; `None` once the lock is lost.
    fn sent(&self) -> Option<u64>;
}
