//! Decides if a node may vote. Does no I/O.
//!
//! A restarted node may have forgotten locks for which it had voted. It would then vote for a
//! second holder. Therefore its vote for an acquire does not count until the end of every lease
//! that it may have forgotten.

use std::time::Duration;

use super::identity::Identity;
use crate::base::clock::Instant;
use crate::base::seeded::seeded;

/// Time added to each quarantine, for two reasons. A server reports its uptime in whole seconds,
/// and leases of other clients may have begun slightly later than the core assumes.
const SLACK: Duration = Duration::from_secs(2);

/// Voting right of one node. It outlives the connections to the node, and exists as long as the
/// pool.
#[derive(Debug, Default)]
pub(super) struct Eligibility {
    run: Option<Run>,
    /// Reason why the node may not vote even after its quarantine, if there is one.
    unfit: Option<String>,
}

/// One process of a node's server.
#[derive(Debug)]
struct Run {
    id: String,
    /// Time of the first connection to the process.
    met: Instant,
    /// Age of the process at that time, for the first process that the pool connects to. Zero for a
    /// later process.
    age: Duration,
}

/// The server process of a new connection, compared with that of the last connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Met {
    /// The first connection to the node.
    New,
    /// The same process as at the last connection.
    Same,
    /// Another process than at the last connection: the node was restarted, or replaced.
    Restarted,
}

/// Returns the duration of a node's quarantine.
pub(super) fn quarantine(longest_ttl: Duration) -> Duration {
    longest_ttl + SLACK
}

impl Eligibility {
    /// Records a connection to a node that reports `identity`.
    pub(super) fn meet(&mut self, identity: &Identity, now: Instant) -> Met {
        self.unfit = identity.unfit();
        let (met, age) = match &self.run {
            Some(run) if run.id == identity.run_id => return Met::Same,
            // The quarantine begins now, not at the start of the process. A server computes its
            // uptime from its clock, so setting the clock forward makes the uptime too long.
            Some(_) => (Met::Restarted, Duration::ZERO),
            None => (Met::New, identity.uptime),
        };
        let age = if seeded!(NoQuarantine) {
            Duration::MAX
        } else {
            age
        };
        self.run = Some(Run {
            id: identity.run_id.clone(),
            met: now,
            age,
        });
        met
    }

    /// Returns the id of the server process at the other end of the last connection.
    pub(super) fn run_id(&self) -> Option<&str> {
        self.run.as_ref().map(|run| run.id.as_str())
    }

    /// Denies the node its vote, for example because it is the same server as another node.
    pub(super) fn disqualify(&mut self, reason: String) {
        self.unfit = Some(reason);
    }

    /// Returns the reason why the node may not vote even after its quarantine, if there is one.
    pub(super) fn unfit(&self) -> Option<&str> {
        self.unfit.as_deref()
    }

    /// Returns the time after which the node may vote. `None` before the first connection to it.
    pub(super) fn votes_from(&self, longest_ttl: Duration) -> Option<Instant> {
        let run = self.run.as_ref()?;
        Some(run.met + quarantine(longest_ttl).saturating_sub(run.age))
    }

    /// True if the node may vote.
    pub(super) fn votes(&self, longest_ttl: Duration, now: Instant) -> bool {
        self.unfit.is_none() && self.votes_from(longest_ttl).is_some_and(|from| from <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(10);

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(1) + Duration::from_secs(1_000 + seconds)
    }

    fn identity(run_id: &str, uptime: u64) -> Identity {
        Identity {
            run_id: run_id.to_owned(),
            uptime: Duration::from_secs(uptime),
            role: "master".to_owned(),
            ..Identity::default()
        }
    }

    #[test]
    fn a_node_votes_only_when_older_than_every_lease() {
        let mut eligibility = Eligibility::default();
        assert!(!eligibility.votes(TTL, at(0)), "it was never met");
        assert_eq!(eligibility.meet(&identity("one", 5), at(0)), Met::New);
        assert!(!eligibility.votes(TTL, at(6)));
        assert!(eligibility.votes(TTL, at(7)));
        assert!(
            !eligibility.votes(TTL * 2, at(7)),
            "longer leases are asked for by now"
        );
    }

    #[test]
    fn an_old_node_votes_at_once() {
        let mut eligibility = Eligibility::default();
        eligibility.meet(&identity("one", 12), at(0));
        assert!(eligibility.votes(TTL, at(0)));
    }

    /// Fails if an old node does not vote while this machine runs for less than a quarantine.
    #[test]
    fn an_old_node_votes_for_a_young_machine() {
        let mut eligibility = Eligibility::default();
        let young = Instant::from_nanos(1);
        eligibility.meet(&identity("one", 500), young);
        assert!(eligibility.votes(TTL, young));
    }

    #[test]
    fn a_restart_counts_from_its_detection() {
        let mut eligibility = Eligibility::default();
        eligibility.meet(&identity("one", 500), at(0));
        assert_eq!(
            eligibility.meet(&identity("two", 60), at(100)),
            Met::Restarted
        );
        assert!(!eligibility.votes(TTL, at(111)));
        assert!(eligibility.votes(TTL, at(112)));
    }

    /// Fails if another connection to the same process ends the quarantine early.
    #[test]
    fn a_new_connection_does_not_shorten_the_quarantine() {
        let mut eligibility = Eligibility::default();
        eligibility.meet(&identity("one", 500), at(0));
        eligibility.meet(&identity("two", 0), at(100));
        assert_eq!(eligibility.meet(&identity("two", 1), at(101)), Met::Same);
        assert_eq!(eligibility.meet(&identity("two", 500), at(102)), Met::Same);
        assert!(
            !eligibility.votes(TTL, at(111)),
            "the vote came back with a connection"
        );
        assert!(eligibility.votes(TTL, at(112)));
    }

    #[test]
    fn a_replica_does_not_vote() {
        let mut eligibility = Eligibility::default();
        let replica = Identity {
            role: "slave".to_owned(),
            ..identity("one", 500)
        };
        eligibility.meet(&replica, at(0));
        assert!(!eligibility.votes(TTL, at(0)));
        assert!(
            eligibility
                .unfit()
                .is_some_and(|why| why.contains("replica"))
        );
        eligibility.meet(&identity("one", 501), at(1));
        assert!(eligibility.votes(TTL, at(1)), "it was made a master");
    }
}
