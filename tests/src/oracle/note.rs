//! The notes for the oracle.

use serde::{Deserialize, Serialize};

use super::Mode;

/// One line of a history. All stamps are nanoseconds of `leasehold::__test::now`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "note", rename_all = "snake_case")]
pub enum Note {
    /// The run that follows, and the seed that repeats its schedule.
    Run {
        /// The name of the run.
        what: String,
        /// Its seed.
        seed: u64,
    },
    /// A body begins.
    Enter {
        /// The locked key.
        key: String,
        /// Identifies this body among the bodies of all processes.
        holder: u64,
        /// The fence.
        fence: Option<u64>,
        /// Time at which the call asked for the lock.
        asked: u64,
        /// Time at which the body read the clock.
        at: u64,
        /// Time from which the lease counts.
        sent: u64,
        /// The end of the lease.
        deadline: u64,
        /// The mode, which determines the bodies that may be beside it.
        #[serde(default, skip_serializing_if = "Mode::is_alone")]
        mode: Mode,
        /// The body whose lock a nested call has entered.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        within: Option<u64>,
    },
    /// A body alone in a lock asks for a share of it instead. Readers may come in from now on.
    Shared {
        /// The locked key.
        key: String,
        /// The body.
        holder: u64,
        /// Time of the request.
        at: u64,
    },
    /// A body has read the same counter twice.
    Read {
        /// The locked key.
        key: String,
        /// The body.
        holder: u64,
        /// The first reading.
        first: u64,
        /// The reading at `at`.
        last: u64,
        /// Time of the second reading.
        at: u64,
        /// The end of the lease at that time.
        deadline: u64,
    },
    /// A body writes, based on an earlier reading.
    Write {
        /// The locked key.
        key: String,
        /// The body.
        holder: u64,
        /// Its fence.
        fence: Option<u64>,
        /// The earlier reading.
        seen: u64,
        /// The greatest fence that the resource had seen.
        newest: u64,
        /// Time of the write.
        at: u64,
        /// The end of the lease at that time.
        deadline: u64,
        /// True if the resource accepted the write.
        kept: bool,
    },
    /// A body is polled although its lease is over.
    LatePoll {
        /// The locked key.
        key: String,
        /// The body.
        holder: u64,
        /// Start of the poll.
        began: u64,
        /// End of the lease.
        deadline: u64,
    },
    /// A body ends, for any reason.
    Leave {
        /// The locked key.
        key: String,
        /// The body.
        holder: u64,
        /// Time of the end.
        at: u64,
        /// The last confirmed end of the lease.
        deadline: u64,
        /// Time for which the lock stays after the end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        keeps: Option<u64>,
    },
    /// A call ended with `Lost`.
    Lost {
        /// The locked key.
        key: String,
        /// Time of the end.
        at: u64,
    },
    /// A call was refused because another call had the lock.
    Refused {
        /// The requested key.
        key: String,
        /// Time of the call.
        asked: u64,
        /// Time of the refusal.
        at: u64,
        /// The longest time that it was willing to queue.
        wait: u64,
    },
    /// A call with `replay` got its answer.
    Answered {
        /// The locked key.
        key: String,
        /// Time of the answer.
        at: u64,
        /// The body that the call ran, or `None` for an answer from a kept result.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ran: Option<u64>,
        /// The body that made the answer, or 0 if unknown.
        from: u64,
        /// Fingerprint of its request.
        asked: u64,
        /// Fingerprint of the request that made the answer.
        answers: u64,
        /// True if a unique key gives all bodies the same answer.
        unique: bool,
    },
    /// The store loses no result of this key, and answers each release.
    AllKept {
        /// The key.
        key: String,
    },
    /// The store loses no result of this key. It may leave a release without an answer.
    Durable {
        /// The key.
        key: String,
    },
    /// An operator took the key away from a process that may have been cut off from the store. The
    /// next holder does not wait for that process.
    TakenAway {
        /// The key.
        key: String,
        /// The process of the former holder.
        process: u32,
        /// Time of the operator's request.
        from: u64,
        /// Time of the answer to it.
        by: u64,
    },
    /// The store promises no fences.
    Unfenced,
    /// A fault was injected.
    Fault {
        /// The kind of the fault.
        kind: String,
        /// Time of the fault.
        at: u64,
    },
    /// One caller at a time uses this key, so it must not be refused.
    Alone {
        /// The key.
        key: String,
    },
    /// Nothing disturbs this key or its callers. It must not be lost, and no call may queue beyond
    /// its budget.
    Undisturbed {
        /// The key.
        key: String,
    },
    /// Every call for this key must get it, or be refused, within this time.
    Fair {
        /// The key.
        key: String,
        /// The longest time.
        within: u64,
    },
    /// Bodies that began before `at` must have left by `by`.
    MustLeave {
        /// The key.
        key: String,
        /// The limit for their start.
        at: u64,
        /// The limit for their end.
        by: u64,
    },
    /// The key was taken from its holder, whose call must end with `Lost`.
    MustTell {
        /// The key.
        key: String,
    },
    /// A key was due to come free, and was seen free.
    Free {
        /// The key.
        key: String,
        /// Time since which it had no holder.
        due: u64,
        /// Time at which it was free.
        at: u64,
        /// The longest time that this may take.
        within: u64,
    },
    /// Another client's key was there, and was inspected again later.
    Foreign {
        /// The key.
        key: String,
        /// True if it was unchanged.
        untouched: bool,
    },
}
