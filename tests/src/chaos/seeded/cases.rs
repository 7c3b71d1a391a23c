//! The seeded bugs that the oracle detects, each with a scenario that reveals the bug.

use std::path::Path;

use super::scene::Scene;
use super::{
    cluster, earlier_version, kept, nested, quorum, replays, scenarios, server_time, several,
    shares, ways,
};
use crate::chaos::crew::Crew;
use crate::oracle::{Kind, Report};

/// Name of a bug in the protected resource instead of the lock: the table accepts every write, even
/// with an old fence.
pub const UNCHECKED: &str = "FenceUnchecked";

/// A seeded bug, and the scenario in which the oracle detects it.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// The name of the bug in `leasehold::__test::bugs`.
    pub bug: &'static str,
    /// The kind of violation that the oracle must report.
    pub kind: Kind,
    /// A description of the scenario.
    pub what: &'static str,
    scenario: fn(&Scene),
}

/// All bugs with a scenario.
pub const CASES: &[Case] = &[
    case(
        "CountedFromReply",
        Kind::Overlap,
        "replies are late, and a second holder waits",
        scenarios::late_replies,
    ),
    case(
        "LossIgnored",
        Kind::ReportedLate,
        "the key is deleted under a renewed lease",
        scenarios::deleted,
    ),
    case(
        "UnknownIsSuccess",
        Kind::Overlap,
        "a renewing holder is cut off from the store, and a second one waits",
        scenarios::cut_off,
    ),
    case(
        "OrphanForgotten",
        Kind::FreedLate,
        "a call is dropped while its request is on the way",
        scenarios::dropped,
    ),
    case(
        "RemovalBelieved",
        Kind::FreedLate,
        "a request arrives after its connection has ended",
        scenarios::straggler,
    ),
    case(
        "NoMargin",
        Kind::LeaseTooLong,
        "a lock is taken",
        scenarios::taken,
    ),
    case(
        "BudgetIgnored",
        Kind::OverBudget,
        "a call queues for a key that stays locked",
        scenarios::queues,
    ),
    case(
        "NoGate",
        Kind::PollAfterDeadline,
        "a process is stopped beyond its lease",
        scenarios::stopped,
    ),
    case(
        "ReleasedBeforeDrop",
        Kind::Overlap,
        "a lease ends while a slow destructor runs and another call waits",
        scenarios::slow_drop,
    ),
    case(
        "DeleteWithoutCompare",
        Kind::Overlap,
        "a late holder releases while a second one is inside and a third one waits",
        scenarios::late_release,
    ),
    case(
        "RenewWithoutCompare",
        Kind::ForeignTouched,
        "another client takes the key of a renewing holder",
        scenarios::stolen,
    ),
    case(
        "RenewBySet",
        Kind::ForeignTouched,
        "another client takes the key of a renewing holder",
        scenarios::stolen,
    ),
    case(
        "NotIdempotent",
        Kind::SelfRefusal,
        "the reply to an acquire is lost",
        scenarios::lost_reply,
    ),
    case(
        "FenceFromCounter",
        Kind::FenceOrder,
        "the server restarts with nothing on disk",
        scenarios::restarted,
    ),
    case(
        "WatchdogAsleep",
        Kind::FalseLoss,
        "a body takes three times its ttl",
        scenarios::takes_long,
    ),
    case(
        "HandedOverWithoutEnd",
        Kind::Overlap,
        "a lock is handed over in a process late in its lease, and another process waits",
        scenarios::handed_over_late,
    ),
    case(
        "FenceHandedOver",
        Kind::FenceOrder,
        "calls of a process follow each other",
        scenarios::handed_over,
    ),
    case(
        "RecordedWithoutCheck",
        Kind::WrongReplay,
        "a body ends after its lease, when another one has a result",
        replays::late,
    ),
    case(
        "FingerprintIgnored",
        Kind::WrongReplay,
        "different requests have one key",
        replays::requests,
    ),
    case(
        "QuorumOfAnswers",
        Kind::Overlap,
        "each of two processes reaches a node of three that the other does not reach",
        quorum::split,
    ),
    case(
        "NoQuarantine",
        Kind::Overlap,
        "one node of three is restarted empty while another has missed the lock",
        quorum::forgetful,
    ),
    case(
        "MessageBelieved",
        Kind::FreedLate,
        "the message that grants a process its turn is lost",
        scenarios::message_lost,
    ),
    case(
        "HandOverBelieved",
        Kind::FreedLate,
        "a process is stopped while it queues, and another one queues behind it",
        scenarios::stopped_waiter,
    ),
    case(
        "ClaimReworded",
        Kind::FreedLate,
        "a process of the version before this one queues behind busy calls",
        earlier_version::queues,
    ),
    case(
        "DeadWaiterKept",
        Kind::FreedLate,
        "a process is stopped while it queues, and another one queues behind it",
        scenarios::stopped_waiter,
    ),
    case(
        "WriterUnseen",
        Kind::Overlap,
        "a reader comes while a writer is inside",
        shares::reader_after_writer,
    ),
    case(
        "ReadersUnseen",
        Kind::Overlap,
        "a writer comes while a reader is inside",
        shares::writer_after_reader,
    ),
    case(
        "ShareShortened",
        Kind::Overlap,
        "a reader with a short lease is killed beside one with a long lease, and a writer waits",
        shares::short_beside_long,
    ),
    case(
        "DeadShareKept",
        Kind::FreedLate,
        "one of three holders of all places is killed, and another call waits",
        shares::dead_beside_living,
    ),
    case(
        "WritersPassed",
        Kind::Starved,
        "readers follow each other without a gap, and a writer waits",
        shares::without_a_gap,
    ),
    case(
        "PermitsUncounted",
        Kind::Crowded,
        "four come for three places",
        shares::four_for_three,
    ),
    case(
        "EndedShareRevived",
        Kind::FreedLate,
        "a renewal arrives after its place has ended and its process is dead, and another one comes",
        shares::late_renewal,
    ),
    case(
        "ShareShortenedByRenewal",
        Kind::Overlap,
        "a reader with a short lease renews it beside one with a long lease and is killed, and a writer waits",
        shares::renewed_beside_long,
    ),
    case(
        "ShareNeedsMemory",
        Kind::FalseLoss,
        "the server's memory is full while a reader renews its lease",
        shares::full_memory,
    ),
    case(
        "WayNotMade",
        Kind::FreedLate,
        "the calls of a process follow each other without a pause, and another client tries from time to time",
        ways::beside_one_process,
    ),
    case(
        "PauseSkipped",
        Kind::FreedLate,
        "two processes hand a lock to each other without a pause, and another client tries from time to time",
        ways::beside_two_processes,
    ),
    case(
        "MarkLost",
        Kind::FreedLate,
        "two processes hand a lock to each other without a pause, and another client tries from time to time",
        ways::beside_two_processes,
    ),
    case(
        "FutureBelieved",
        Kind::FreedLate,
        "a writer is stopped while it queues, the server's clock is set back, and a reader comes",
        server_time::stopped_writer,
    ),
    case(
        "OldClaimBelieved",
        Kind::FreedLate,
        "a lock is handed to a process that is stopped, the server's clock is set back, and another one queues",
        server_time::stopped_successor,
    ),
    case(
        "SilenceIsKept",
        Kind::Overlap,
        "one master of a cluster refuses the renewals of a process that has locks on all of them, and a second one waits",
        cluster::refused_by_one,
    ),
    case(
        "AnswersMixed",
        Kind::FalseLoss,
        "one process holds locks on all masters of a cluster, and one of them is deleted",
        cluster::one_deleted,
    ),
    case(
        "RenewedByOne",
        Kind::Overlap,
        "a renewing holder is cut off from two nodes of three, and a second one waits",
        quorum::left_with_one,
    ),
    case(
        "OnlyFirstKeyWakes",
        Kind::ReportedLate,
        "the second key of a waiting body is deleted",
        several::second_key_lost,
    ),
    case(
        "AnyKeyIsEnough",
        Kind::PollAfterDeadline,
        "a process with two keys is stopped until the lease on one of them is over",
        several::first_key_ends,
    ),
    case(
        "BudgetPerKey",
        Kind::OverBudget,
        "a call queues for two keys, and one of them comes free",
        several::one_budget,
    ),
    case(
        "SecondKeyOrphaned",
        Kind::FreedLate,
        "a call of two keys is dropped while its request is on the way",
        several::dropped,
    ),
    case(
        "SecondKeyKept",
        Kind::FreedLate,
        "a call of two keys ends",
        several::released,
    ),
    case(
        "InnerEndReleases",
        Kind::FalseLoss,
        "a body makes two nested calls at once",
        nested::two_at_once,
    ),
    case(
        "TurnsIgnored",
        Kind::Overlap,
        "a body makes two nested calls at once",
        nested::two_at_once,
    ),
    case(
        "PathLeaks",
        Kind::Overlap,
        "two tasks of one thread make nested calls",
        nested::two_tasks,
    ),
    case(
        "ShareEntered",
        Kind::Overlap,
        "the body of a reader makes nested calls that write",
        nested::inside_a_share,
    ),
    case(
        "MaxHoldForgotten",
        Kind::ReportedLate,
        "a lock with `max_hold` is downgraded",
        kept::downgraded,
    ),
    case(
        "KeptAfterErr",
        Kind::FreedLate,
        "a function with `cooldown` fails",
        kept::fails,
    ),
    case(
        "KeptHandedOver",
        Kind::KeptShort,
        "a function with `cooldown` returns while a call of its process waits",
        kept::next_call_waits,
    ),
    case(
        "ShareReleasesAll",
        Kind::Overlap,
        "one of two readers leaves, and a writer waits",
        shares::one_leaves,
    ),
    case(
        "WrongLeaseExtended",
        Kind::FalseLoss,
        "one of two keys that are renewed together is deleted",
        scenarios::one_of_two_deleted,
    ),
    case(
        "HandedOverNotRenewed",
        Kind::FalseLoss,
        "a lock is handed over in a process to a body that takes longer than its ttl",
        scenarios::handed_over_for_long,
    ),
    case(
        "OrderForgotten",
        Kind::FreedLate,
        "a request arrives after its connection has ended",
        scenarios::straggler,
    ),
    case(
        "CutIsAnswer",
        Kind::FreedLate,
        "a release is lost, and its connection ends",
        scenarios::release_cut_off,
    ),
    case(
        "GrantUnnoticed",
        Kind::FreedLate,
        "a call queues for the lock of another client, which releases it",
        scenarios::comes_free,
    ),
    case(
        "LossUnnoticed",
        Kind::ReportedLate,
        "the key of a waiting body is deleted",
        scenarios::deleted_while_it_waits,
    ),
    case(
        "DropForgotten",
        Kind::FreedLate,
        "calls are dropped while their bodies run",
        scenarios::dropped_inside,
    ),
    case(
        "ShutdownHurries",
        Kind::FreedLate,
        "a release is lost, and its process shuts down",
        scenarios::ends_while_it_releases,
    ),
    case(
        "TokensRepeat",
        Kind::Overlap,
        "a second process comes while a first is inside",
        scenarios::second_process,
    ),
    case(
        "FenceUnreported",
        Kind::NoFence,
        "a lock is taken",
        scenarios::taken,
    ),
    case(
        "GoneIsReleased",
        Kind::ReportedLate,
        "the key is deleted under a guard that is released later",
        scenarios::gone,
    ),
    case(
        UNCHECKED,
        Kind::StaleWrite,
        "processes of holders are stopped beyond their leases and write to a table that does not compare fences",
        scenarios::resumed,
    ),
];

const fn case(bug: &'static str, kind: Kind, what: &'static str, scenario: fn(&Scene)) -> Case {
    Case {
        bug,
        kind,
        what,
        scenario,
    }
}

impl Case {
    /// Returns the case as a row of the table in `tests/seeded_bugs.md`.
    pub fn row(&self) -> String {
        format!("| `{}` | {} | {} |", self.bug, self.kind, self.what)
    }

    /// Runs the scenario, with the bug or without, and returns the oracle's report.
    pub fn play(&self, program: &Path, folder: &Path, with_bug: bool) -> Report {
        let kind = if with_bug { "with" } else { "without" };
        let folder = folder.join(format!("{}-{kind}", self.bug));
        let crew = Crew::new(program, &folder, self.what, 1);
        Scene::play(crew, with_bug.then_some(self.bug), self.scenario)
    }
}
