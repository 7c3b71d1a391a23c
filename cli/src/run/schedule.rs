//! Computes the times at which the guardian asks the command to stop, and kills it. Reads no clock
//! and touches no process.
//!
//! ```text
//! renewed                                  deadline - ttl/5   - ttl/10    - ttl/20  deadline
//!    |---------------------------------------------|-------------|-----------|---------|
//!                                               SIGTERM       SIGKILL    SIGKILL by
//!                                                                     `leasehold run`
//! ```
//!
//! At the deadline, leasehold itself gives the lease up. The store does not grant the lock to
//! another process before that.

use std::time::Duration;

use super::clock::Moment;

/// Maximum time between SIGTERM and SIGKILL after `--max-hold` is over, or after `leasehold run`
/// has died. An earlier end of the lease shortens this time.
const GRACE: Duration = Duration::from_secs(10);

/// Maximum time between SIGTERM and SIGKILL after a lease was lost or a lock was taken away
/// (`leasehold release`). A lock becomes free three seconds after it was taken away, even if its
/// holder does not release it.
const TAKEN_AWAY: Duration = Duration::from_secs(2);

/// Maximum time between SIGKILL by the guardian and by `leasehold run`, if the command is stopped
/// before its lease nears its end.
const BACKUP: Duration = Duration::from_millis(500);

/// Two readings of one deadline differ by less than this. If the difference is greater, the lease
/// was renewed.
const ROUNDING: Duration = Duration::from_millis(1);

/// Reason for stopping a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The lease is lost, or was not renewed for so long that it may soon be lost.
    Lost,
    /// An operator has taken the lock away (`leasehold release`). The command is stopped as if the
    /// lease were lost.
    TakenAway,
    /// `--max-hold` is over. The lease is still renewed.
    MaxHold,
    /// `leasehold run` has died. The lock stays at the store until its ttl ends.
    Orphaned,
}

impl Reason {
    /// True if another process may soon have the lock.
    pub(super) fn is_loss(self) -> bool {
        matches!(self, Self::Lost | Self::TakenAway)
    }
}

/// A step to end the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// SIGTERM.
    Terminate,
    /// SIGKILL, until no process is left.
    Kill,
}

/// The times at which a command must stop, computed from its lease.
#[derive(Debug)]
pub(super) struct Schedule {
    ttl: Duration,
    deadline: Moment,
    /// Reason for stopping the command, and the latest time to kill it.
    stopped: Option<(Reason, Moment)>,
}

impl Schedule {
    /// Creates the schedule for a lease that ends at `deadline` unless it is renewed.
    pub(super) fn new(ttl: Duration, deadline: Moment) -> Self {
        Self {
            ttl,
            deadline,
            stopped: None,
        }
    }

    /// Records the current deadline, which may be unchanged. Returns true if the lease lasts longer
    /// than previously known. A renewal does not cancel a stop: a command that was asked to stop
    /// must still end.
    pub(super) fn extend(&mut self, deadline: Moment) -> bool {
        let longer = self.deadline + ROUNDING < deadline;
        if longer {
            self.deadline = deadline;
        }
        longer
    }

    /// Returns the time at which the command is asked to stop unless the lease is renewed. A
    /// command does not start after this time.
    pub(super) fn terminates_at(&self) -> Moment {
        self.deadline.saturating_sub(self.ttl / 5)
    }

    /// Returns the time at which the command is killed if it has not ended by then.
    pub(super) fn kills_at(&self) -> Moment {
        let latest = self.deadline.saturating_sub(self.ttl / 10);
        self.stopped.map_or(latest, |(_, at)| at.min(latest))
    }

    /// Returns the time at which `leasehold run` kills the command, in case the guardian stalls.
    pub(super) fn backup_at(&self) -> Moment {
        let kills_at = self.kills_at();
        let slack = self.ttl / 20;
        if kills_at < self.deadline.saturating_sub(self.ttl / 10) {
            kills_at + slack.min(BACKUP)
        } else {
            kills_at + slack
        }
    }

    /// Returns the time of the next call to [`due`](Self::due).
    pub(super) fn next(&self) -> Moment {
        match self.stopped {
            None => self.terminates_at(),
            Some(_) => self.kills_at(),
        }
    }

    /// Returns the reason for stopping the command, if it was asked to stop.
    pub(super) fn reason(&self) -> Option<Reason> {
        self.stopped.map(|(reason, _)| reason)
    }

    /// Records that the command must end. Returns true if it was not asked to stop before.
    pub(super) fn stop(&mut self, reason: Reason, now: Moment) -> bool {
        let grace = match reason {
            Reason::Lost | Reason::TakenAway => TAKEN_AWAY.min(self.ttl / 10),
            Reason::MaxHold | Reason::Orphaned => GRACE,
        };
        let (first, at) = self.stopped.unwrap_or((reason, Moment::MAX));
        let is_first = self.stopped.is_none();
        self.stopped = Some((first, at.min(now + grace)));
        is_first
    }

    /// Records that the lease was not renewed. No loss is reported, so the command gets all the
    /// time until it must be killed, not only the shorter time of `stop`. Returns true if the
    /// command was not asked to stop before.
    pub(super) fn expire(&mut self) -> bool {
        let is_first = self.stopped.is_none();
        if is_first {
            self.stopped = Some((Reason::Lost, self.kills_at()));
        }
        is_first
    }

    /// Returns the due step: SIGTERM once, and SIGKILL until the command is gone. If both are due,
    /// SIGTERM is omitted, because the guardian sends SIGCONT after each SIGTERM. The SIGCONT would
    /// let a suspended process run again, although it must be killed.
    pub(super) fn due(&mut self, now: Moment) -> Option<Step> {
        let overdue = self.terminates_at() <= now && self.expire();
        if self.stopped.is_some() && self.kills_at() <= now {
            Some(Step::Kill)
        } else {
            overdue.then_some(Step::Terminate)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(20);

    fn at(seconds: u64) -> Moment {
        Duration::from_secs(seconds)
    }

    /// Fails if a command whose lease is not renewed still lives at its deadline.
    #[test]
    fn a_command_is_stopped_before_an_unrenewed_lease_ends() {
        let mut schedule = Schedule::new(TTL, at(120));
        assert_eq!(schedule.next(), at(116));
        assert_eq!(schedule.due(at(115)), None);
        assert_eq!(schedule.due(at(116)), Some(Step::Terminate));
        assert_eq!((schedule.due(at(117)), schedule.next()), (None, at(118)));
        assert_eq!(schedule.due(at(118)), Some(Step::Kill));
        assert_eq!(schedule.due(at(119)), Some(Step::Kill), "until it is gone");
        assert_eq!(schedule.backup_at(), at(119));
    }

    /// Fails if a command may run for more than two seconds after a reported loss of its lock, even
    /// if its lease lasts longer. Another process may soon get such a lock.
    #[test]
    fn a_lost_lock_stops_the_command_before_a_long_lease_ends() {
        let ttl = Duration::from_secs(300);
        let mut ends = Schedule::new(ttl, at(1_000));
        assert_eq!(ends.due(at(940)), Some(Step::Terminate));
        assert_eq!(ends.next(), at(970));
        let mut taken = Schedule::new(ttl, at(1_000));
        assert!(taken.stop(Reason::Lost, at(800)));
        assert_eq!(taken.next(), at(802));
    }

    /// Fails if a stalled guardian lets the command of a lost lock run until the lock is free,
    /// three seconds after it was taken away.
    #[test]
    fn a_lost_lock_has_an_early_backup() {
        let mut schedule = Schedule::new(Duration::from_secs(3_600), at(10_000));
        assert!(schedule.stop(Reason::TakenAway, at(100)));
        assert_eq!(schedule.backup_at(), at(102) + Duration::from_millis(500));
        let mut unrenewed = Schedule::new(Duration::from_secs(300), at(1_000));
        assert!(unrenewed.expire() && !unrenewed.expire());
        assert_eq!(
            (unrenewed.next(), unrenewed.backup_at()),
            (at(970), at(985))
        );
    }

    /// Fails if a command gets time to stop after the machine was suspended past the deadline.
    #[test]
    fn a_pause_beyond_the_deadline_leaves_no_grace() {
        let mut schedule = Schedule::new(TTL, at(120));
        assert_eq!(schedule.due(at(200)), Some(Step::Kill));
        assert_eq!(schedule.reason(), Some(Reason::Lost));
    }

    /// Fails if a renewal does not postpone the end of a command, or if it cancels the stop after a
    /// lost lease.
    #[test]
    fn a_renewal_moves_the_end_unless_the_lease_is_lost() {
        let mut schedule = Schedule::new(TTL, at(120));
        schedule.extend(at(130));
        schedule.extend(at(125));
        assert_eq!(schedule.due(at(125)), None);
        assert!(schedule.stop(Reason::Lost, at(125)));
        schedule.extend(at(300));
        assert_eq!(schedule.due(at(127)), Some(Step::Kill));
    }

    /// Fails if a command gets no time to end after `--max-hold` or the death of `leasehold run`,
    /// or gets more time than its lease has.
    #[test]
    fn stops_for_other_reasons_leave_at_most_ten_seconds() {
        let mut schedule = Schedule::new(TTL, at(1_000));
        assert!(schedule.stop(Reason::MaxHold, at(100)));
        assert_eq!(schedule.next(), at(110));
        let mut schedule = Schedule::new(TTL, at(109));
        assert!(schedule.stop(Reason::Orphaned, at(100)));
        assert_eq!(schedule.next(), at(107));
        assert!(!schedule.stop(Reason::Lost, at(101)), "asked before");
        assert_eq!(schedule.next(), at(103), "the earlier end counts");
        assert_eq!(schedule.reason(), Some(Reason::Orphaned));
    }
}
