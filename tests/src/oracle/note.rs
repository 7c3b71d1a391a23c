//! The notes that processes write for the oracle.

use serde::{Deserialize, Serialize};

use super::Mode;

/// One line of a history. All times are nanoseconds of `leasehold::__test::now`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "note", rename_all = "snake_case")]
pub enum Note {
    /// A run begins. The seed can be used to repeat its schedule.
    Run {
        /// The name of the run.
        what: String,
        /// The seed of the run.
        seed: u64,
    },
    /// A body begins.
    Enter {
        /// The locked key.
        key: String,
        /// Number of this body, unique among all processes.
        holder: u64,
        /// The fence.
        fence: Option<u64>,
        /// Time at which the call requested the lock.
        asked: u64,
        /// Time at which the body first read the clock.
        at: u64,
        /// Start of the lease: the time before its request was sent.
        sent: u64,
        /// The end of the lease.
        deadline: u64,
        /// The mode, which determines the bodies that may be inside at the same time.
        #[serde(default, skip_serializing_if = "Mode::is_alone")]
        mode: Mode,
        /// For a nested call, the number of the body in which it runs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        within: Option<u64>,
    },
    /// A body with an exclusive lock requests a shared lock instead. After this, readers may enter.
    Shared {
        /// The locked key.
        key: String,
        /// Number of the body.
        holder: u64,
        /// Time of the request.
        at: u64,
    },
    /// A body has read the counter of its key twice.
    Read {
        /// The locked key.
        key: String,
        /// Number of the body.
        holder: u64,
        /// The value of the first reading.
        first: u64,
        /// The value of the second reading.
        last: u64,
        /// Time of the second reading.
        at: u64,
        /// The end of the lease at the time of the second reading.
        deadline: u64,
    },
    /// A body writes the resource that the lock protects, such as a counter. The written value
    /// depends on an earlier reading.
    Write {
        /// The locked key.
        key: String,
        /// Number of the body.
        holder: u64,
        /// The fence of the body.
        fence: Option<u64>,
        /// The value of the earlier reading.
        seen: u64,
        /// The greatest fence that the resource had seen before.
        newest: u64,
        /// Time of the write.
        at: u64,
        /// The end of the lease at the time of the write.
        deadline: u64,
        /// True if the resource accepted the write.
        kept: bool,
    },
    /// A body is polled at or after the end of its lease.
    LatePoll {
        /// The locked key.
        key: String,
        /// Number of the body.
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
        /// Number of the body.
        holder: u64,
        /// Time of the end.
        at: u64,
        /// The last confirmed end of the lease.
        deadline: u64,
        /// Time for which the lock stays held after the body's end.
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
        /// The `wait` of the call: its time limit in the queue.
        wait: u64,
    },
    /// A call with `replay` got its answer.
    Answered {
        /// The locked key.
        key: String,
        /// Time of the answer.
        at: u64,
        /// Number of the body that the call ran, or `None` for an answer from a kept result.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ran: Option<u64>,
        /// Number of the body that made the answer, or 0 if unknown.
        from: u64,
        /// Fingerprint of the call's `replay` request.
        asked: u64,
        /// Fingerprint of the `replay` request whose body made the answer.
        answers: u64,
        /// True if all bodies insert the same unique key into a table, and answer with the number
        /// of the body whose insert succeeded. So all answers must name the same body.
        unique: bool,
    },
    /// In the whole history, the store loses no result of this key, and answers each release.
    AllKept {
        /// The key.
        key: String,
    },
    /// In the whole history, the store loses no result of this key, but may not answer a release.
    Durable {
        /// The key.
        key: String,
    },
    /// An operator took the key away from a process that may be cut off from the store. The next
    /// holder may begin while the body of that process still runs.
    TakenAway {
        /// The key.
        key: String,
        /// The process of the former holder.
        process: u32,
        /// Time of the operator's request.
        from: u64,
        /// Time of the answer to the operator.
        by: u64,
    },
    /// In the whole history, the store promises no fences.
    Unfenced,
    /// A fault was injected.
    Fault {
        /// The kind of the fault.
        kind: String,
        /// Time of the fault.
        at: u64,
    },
    /// Only one caller at a time uses this key, so no call for it may be refused.
    Alone {
        /// The key.
        key: String,
    },
    /// No fault affects this key or its callers. The lock must not be lost, and no call may wait
    /// longer than its limit.
    Undisturbed {
        /// The key.
        key: String,
    },
    /// Every call for this key must get the lock or be refused within this time.
    Fair {
        /// The key.
        key: String,
        /// The longest allowed time.
        within: u64,
    },
    /// Bodies of this key that began before `at` must have left by `by`.
    MustLeave {
        /// The key.
        key: String,
        /// Only bodies that began before this time must leave.
        at: u64,
        /// The time by which these bodies must have left.
        by: u64,
    },
    /// The key was taken from its holder, whose call must end with `Lost`.
    MustReport {
        /// The key.
        key: String,
    },
    /// A key must become free, or get its next holder, within a time limit.
    Free {
        /// The key.
        key: String,
        /// Start of the time limit, such as the time at which the holder was killed.
        due: u64,
        /// Time at which the key was found free, or had its next holder. If neither happened, a
        /// time after the limit.
        at: u64,
        /// The longest allowed time from `due` to `at`.
        within: u64,
    },
    /// The key of another client, which leasehold must not change, was read again.
    Foreign {
        /// The key.
        key: String,
        /// True if the key was unchanged.
        untouched: bool,
    },
}
