//! The kinds of broken promises.

use std::fmt;

/// The kind of a broken promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Two holders had one key at the same time, although they exclude each other.
    Overlap,
    /// At one time there were more holders than permits.
    Crowded,
    /// The fence of a later holder is not greater than the fence of an earlier holder.
    FenceOrder,
    /// A grant had no fence, although the store promises fences.
    NoFence,
    /// A later holder has a smaller fence than an earlier holder, and requested its lease before
    /// the end of the earlier lease. Reported instead of `FenceOrder`, because two masters may have
    /// granted the two leases.
    Crossed,
    /// The resource accepted a write although it had already seen a newer fence.
    StaleWrite,
    /// The resource refused a write during the writer's lease, because a newer holder had already
    /// used the resource.
    Overtaken,
    /// Two accepted writes were based on the same value of the counter.
    LostUpdate,
    /// A body read the counter twice during its lease and found two values, so another body wrote
    /// in between.
    TornRead,
    /// A body was polled at or after its deadline.
    PollAfterDeadline,
    /// A process counted its lease from a time after the start of the body. The process then relied
    /// on the lease for too long.
    LeaseTooLong,
    /// A lease was lost although no fault affected its key.
    FalseLoss,
    /// A call was refused although no other caller uses the key.
    SelfRefusal,
    /// A refused call had waited in the queue for longer than its time limit.
    OverBudget,
    /// A call waited for its lock for longer than a `Fair` note allows.
    Starved,
    /// A body ran for too long after its lock was taken away, or its call did not end with `Lost`.
    ReportedLate,
    /// A key stayed locked for too long after the end of its holder.
    FreedLate,
    /// A key should have stayed locked for some time after the end of a body, but another holder
    /// got it earlier.
    KeptShort,
    /// The body of a `replay` call began although a result was kept.
    RanAgain,
    /// A `replay` call got another answer than the first call, or the answer to a different
    /// request.
    WrongReplay,
    /// A nested call began before the body in which it runs, ended after this body, or had another
    /// fence.
    Misnested,
    /// A key of another client was changed. Leasehold must never change such a key.
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
