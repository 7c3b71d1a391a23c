//! The notes for the oracle.

use serde::{Deserialize, Serialize};

use super::Mode;

/// One line of a history. All stamps are nanoseconds of `leasehold::__test::now`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "note", rename_all = "snake_case")]
pub enum Note {
    /// The run that follows, and the seed that repeats its schedule.
    Run {
        /// What runs.
        what: String,
        /// Its seed.
        seed: u64,
    },
    /// A body begins.
    Enter {
        /// What is locked.
        key: String,
        /// Identifies this body among the bodies of all processes.
        holder: u64,
        /// The fence.
        fence: Option<u64>,
        /// When the call asked for the lock.
        asked: u64,
        /// When the body read the clock.
        at: u64,
        /// When the lease begins to count.
        sent: u64,
        /// The end of the lease.
        deadline: u64,
        /// Which bodies may be beside it.
        #[serde(default, skip_serializing_if = "Mode::is_alone")]
        mode: Mode,
        /// The body whose lock a nested call has entered.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        within: Option<u64>,
    },
    /// A body that had a lock alone asks for a share of it instead. Readers may come in from now
    /// on.
    Shared {
        /// What is locked.
        key: String,
        /// The body.
        holder: u64,
        /// When it asked.
        at: u64,
    },
    /// A body has read the same thing twice.
    Read {
        /// What is locked.
        key: String,
        /// The body.
        holder: u64,
        /// What it found first.
        first: u64,
        /// What it found at `at`.
        last: u64,
        /// When.
        at: u64,
        /// The end of the lease then.
        deadline: u64,
    },
    /// A body writes what it has read before.
    Write {
        /// What is locked.
        key: String,
        /// The body.
        holder: u64,
        /// Its fence.
        fence: Option<u64>,
        /// What it had read.
        seen: u64,
        /// The greatest fence that the resource had seen.
        newest: u64,
        /// When.
        at: u64,
        /// The end of the lease then.
        deadline: u64,
        /// Whether the resource accepted the write.
        kept: bool,
    },
    /// A body is polled although its lease is over.
    LatePoll {
        /// What was locked.
        key: String,
        /// The body.
        holder: u64,
        /// When the poll began.
        began: u64,
        /// When the lease ended.
        deadline: u64,
    },
    /// A body ends, however that comes.
    Leave {
        /// What was locked.
        key: String,
        /// The body.
        holder: u64,
        /// When.
        at: u64,
        /// The end of the lease as confirmed last.
        deadline: u64,
        /// How long the lock stays after this.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        keeps: Option<u64>,
    },
    /// A call ended with `Lost`.
    Lost {
        /// What was locked.
        key: String,
        /// When.
        at: u64,
    },
    /// A call was refused because another call had the lock.
    Refused {
        /// What it asked for.
        key: String,
        /// When it was called.
        asked: u64,
        /// When it was refused.
        at: u64,
        /// How long it was willing to queue.
        wait: u64,
    },
    /// A call with `replay` got its answer.
    Answered {
        /// What is locked.
        key: String,
        /// When.
        at: u64,
        /// The body that the call ran; none if a kept result answered it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ran: Option<u64>,
        /// The body that made what it is answered with; 0 if that is not known.
        from: u64,
        /// What its request was.
        asked: u64,
        /// What the request of its answer was.
        answers: u64,
        /// Whether a unique key gives all bodies the same answer.
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
    /// An operator took the key away from a process that may have been cut off from the store. Then
    /// the next holder does not wait for it.
    TakenAway {
        /// The key.
        key: String,
        /// The process that had it.
        process: u32,
        /// When the operator asked for it,
        from: u64,
        /// and had an answer.
        by: u64,
    },
    /// The store promises no fences.
    Unfenced,
    /// A fault was injected.
    Fault {
        /// What.
        kind: String,
        /// When.
        at: u64,
    },
    /// One caller at a time uses this key: it must not be refused.
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
    /// Every call for this key has it, or is refused, within this time.
    Fair {
        /// The key.
        key: String,
        /// The bound.
        within: u64,
    },
    /// Bodies that began before `at` must have left by `by`.
    MustLeave {
        /// The key.
        key: String,
        /// The moment.
        at: u64,
        /// The bound.
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
        /// Since when it had no holder.
        due: u64,
        /// When it was free.
        at: u64,
        /// How long that may take.
        within: u64,
    },
    /// Another client's key was there, and it was seen again later.
    Foreign {
        /// The key.
        key: String,
        /// Whether it was as it had been left.
        untouched: bool,
    },
}
