//! The kinds of broken promises.

use std::fmt;

/// The kind of a broken promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Two holders had one key at the same time, although they exclude each other.
    Overlap,
    /// At one time there were more holders than permits.
    Crowded,
    /// The fence of a later holder is not greater than that of an earlier one.
    FenceOrder,
    /// A grant had no fence, although the store promises fences.
    NoFence,
    /// A later holder has a smaller fence than an earlier holder, and requested its lease before
    /// the end of the earlier lease.
    Crossed,
    /// The resource accepted a write with an older fence than it had seen.
    StaleWrite,
    /// A write was refused during its lease, because a newer holder had used the resource.
    Overtaken,
    /// Two accepted writes were based on the same value of the counter.
    LostUpdate,
    /// A reader saw a write of another body during the reader's lease.
    TornRead,
    /// A body was polled at or after its deadline.
    PollAfterDeadline,
    /// A lease is counted from a time after the start of its body, so it counts as too long.
    LeaseTooLong,
    /// A lease of an undisturbed key was lost.
    FalseLoss,
    /// A call was refused although no other caller uses the key.
    SelfRefusal,
    /// A call waited in the queue for longer than its time limit.
    OverBudget,
    /// A call waited for its lock for longer than a `Fair` note allows.
    Starved,
    /// A body ran for too long after its lock was taken away, or its call did not end with `Lost`.
    ReportedLate,
    /// A key stayed locked for too long after the end of its holder.
    FreedLate,
    /// Another holder had a key that should have stayed locked after its body's end.
    KeptShort,
    /// A body began although a result was kept.
    RanAgain,
    /// A call got another answer than the first call, or the answer to a different request.
    WrongReplay,
    /// A nested call began before its holder's body, ended after it, or had another fence than the
    /// holder.
    Misnested,
    /// A key that leasehold must not change was changed.
    ForeignTouched,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Overlap => "two holders overlap",
            Self::Crowded => "more holders than places",
            Self::FenceOrder => "a fence did not grow",
            Self::NoFence => "a grant had no fence",
            Self::Crossed => "two grants crossed",
            Self::StaleWrite => "a write with an older fence was taken",
            Self::Overtaken => "a newer holder was there during a lease",
            Self::LostUpdate => "an update was lost",
            Self::TornRead => "a reader saw a write",
            Self::PollAfterDeadline => "a body was polled after its deadline",
            Self::LeaseTooLong => "a lease counts from after its request",
            Self::FalseLoss => "an undisturbed lease was lost",
            Self::SelfRefusal => "a caller was refused that was alone",
            Self::OverBudget => "a call queued beyond its budget",
            Self::Starved => "a call was starved",
            Self::ReportedLate => "a loss was reported late",
            Self::FreedLate => "a key came free late",
            Self::KeptShort => "a kept key was taken too early",
            Self::RanAgain => "a body ran although a result was kept",
            Self::WrongReplay => "a replayed answer was not the first",
            Self::Misnested => "a nested call was not inside its holder",
            Self::ForeignTouched => "another client's key was touched",
        })
    }
}

/// A broken promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The kind of the broken promise.
    pub kind: Kind,
    /// The key.
    pub key: String,
    /// The details, such as the times and the holders.
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: `{}`: {}", self.kind, self.key, self.detail)
    }
}
