//! The seeded bugs: for each the smallest scenario in which the oracle sees it.
//!
//! A bug lives in a worker process (`LEASEHOLD_SEEDED_BUG`). Every scenario also runs without it, and must
//! then be without a violation.

mod cluster;
mod quorum;
mod scenarios;
mod scene;
mod server_time;
mod shares;
mod ways;

use std::path::Path;

use super::crew::Crew;
use crate::oracle::{Kind, Report};
use scene::Scene;

/// A bug of the resource and not of the lock: the table takes every write.
pub const UNCHECKED: &str = "FenceUnchecked";

/// A bug, and what finds it.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// Its name, as `leasehold::__test::bugs` has it.
    pub bug: &'static str,
    /// What the oracle must say.
    pub kind: Kind,
    /// The scenario, in words.
    pub what: &'static str,
    scenario: fn(&Scene),
}

/// All of them.
pub const CASES: &[Case] = &[
    case(
        "CountedFromReply",
        Kind::Overlap,
        "replies are late, and a second holder waits",
        scenarios::late_replies,
    ),
    case(
        "LossIgnored",
        Kind::ToldLate,
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
        "PassedOnWithoutEnd",
        Kind::Overlap,
        "a lock is passed on in a process late in its lease, and another process waits",
        scenarios::passed_on_late,
    ),
    case(
        "FencePassedOn",
        Kind::FenceOrder,
        "calls of a process follow each other",
        scenarios::passed_on,
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
        "the message that tells a process of its turn is lost",
        scenarios::message_lost,
    ),
    case(
        "HandOffBelieved",
        Kind::FreedLate,
        "a process is stopped while it queues, and another one queues behind it",
        scenarios::stopped_waiter,
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
        "of three who have all places one is killed, and another one waits",
        shares::dead_beside_living,
    ),
    case(
        "WritersPassed",
        Kind::Starved,
        "readers follow each other without a gap, and a writer waits",
        shares::without_a_gap,
    ),
    case(
        "PlacesUncounted",
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
        server_time::stopped_heir,
    ),
    case(
        "SilenceIsKept",
        Kind::Overlap,
        "one master of a cluster refuses the renewals of a process that has locks on all of them, and a second one waits",
        cluster::refused_by_one,
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
    /// Plays the scenario, with the bug or without, and says what the oracle found.
    pub fn play(&self, program: &Path, folder: &Path, with_bug: bool) -> Report {
        let kind = if with_bug { "with" } else { "without" };
        let folder = folder.join(format!("{}-{kind}", self.bug));
        let crew = Crew::new(program, &folder, self.what, 1);
        Scene::play(crew, with_bug.then_some(self.bug), self.scenario)
    }
}
