//! Which nodes may vote. Pure.
//!
//! A node that was restarted may have forgotten locks that it had voted for, and so would say yes to a second
//! holder. It stays without a vote until every lease that it may have forgotten is over.

use std::time::Duration;

use super::identity::Identity;
use crate::base::clock::Instant;
use crate::base::seeded::seeded;

/// A server counts its age in whole seconds and other clients' leases may have begun a little later than we think.
const SLACK: Duration = Duration::from_secs(2);

/// What is known of one node, for as long as the pool lives: connections come and go.
#[derive(Debug, Default)]
pub(super) struct Eligibility {
    run: Option<Run>,
    /// Why it may not vote however old it is.
    unfit: Option<String>,
}

/// One process of a node, from its start to its end.
#[derive(Debug)]
struct Run {
    id: String,
    /// Not before the node's start.
    since: Instant,
}

/// What a new connection found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Met {
    /// The first connection to the node.
    New,
    /// The process that was there before.
    Same,
    /// Another process: the node was restarted, or replaced.
    Restarted,
}

/// How long a node stays without a vote after its start.
pub(super) fn quarantine(longest_ttl: Duration) -> Duration {
    longest_ttl + SLACK
}

impl Eligibility {
    /// A connection was made, to a node that says this of itself.
    pub(super) fn meet(&mut self, identity: &Identity, now: Instant) -> Met {
        self.unfit = identity.unfit();
        let (met, since) = match &self.run {
            Some(run) if run.id == identity.run_id => return Met::Same,
            // Its own word would do, but a clock that was set right after the start makes a node look old.
            Some(_) => (Met::Restarted, now),
            None => (Met::New, now - identity.uptime),
        };
        let since = if seeded!(NoQuarantine) {
            Instant::ZERO
        } else {
            since
        };
        self.run = Some(Run {
            id: identity.run_id.clone(),
            since,
        });
        met
    }

    /// The process that was met last.
    pub(super) fn run_id(&self) -> Option<&str> {
        self.run.as_ref().map(|run| run.id.as_str())
    }

    /// It is another node under a second name.
    pub(super) fn disqualify(&mut self, reason: String) {
        self.unfit = Some(reason);
    }

    /// Why it may not vote however old it is.
    pub(super) fn unfit(&self) -> Option<&str> {
        self.unfit.as_deref()
    }

    /// From when on the node may vote; never if it was not met.
    pub(super) fn votes_from(&self, longest_ttl: Duration) -> Option<Instant> {
        Some(self.run.as_ref()?.since + quarantine(longest_ttl))
    }

    /// Whether the node may vote.
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
    fn a_young_node_does_not_vote_until_it_is_older_than_every_lease() {
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

    #[test]
    fn a_restart_counts_from_when_it_was_seen() {
        let mut eligibility = Eligibility::default();
        eligibility.meet(&identity("one", 500), at(0));
        assert_eq!(
            eligibility.meet(&identity("two", 60), at(100)),
            Met::Restarted
        );
        assert!(!eligibility.votes(TTL, at(111)));
        assert!(eligibility.votes(TTL, at(112)));
    }

    /// The connection breaks again, and the same process is found once more.
    #[test]
    fn a_second_connection_is_no_second_chance() {
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
