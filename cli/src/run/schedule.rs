//! When the command is asked to stop, and when it is killed. Pure: no clock, no processes.
//!
//! ```text
//! renewed                                  deadline - ttl/5   - ttl/10    - ttl/20  deadline
//!    |---------------------------------------------|-------------|-----------|---------|
//!                                               SIGTERM       SIGKILL    (a second process
//!                                                                         kills as well)
//! ```
//!
//! The deadline is when leasehold itself gives the lease up. The store does not give the lock to
//! another process before that.

use std::time::Duration;

use super::clock::Moment;

/// The longest time that a command gets between SIGTERM and SIGKILL, if its lease lasts so long.
const GRACE: Duration = Duration::from_secs(10);

/// The longest time between SIGTERM and SIGKILL when a lock is taken away (`leasehold release`). It
/// comes free three seconds after that, whatever its holder does.
const TAKEN_AWAY: Duration = Duration::from_secs(2);

/// Two readings of one deadline differ by less.
const ROUNDING: Duration = Duration::from_millis(1);

/// Why a command is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The lease is lost, or was not renewed for so long that it may soon be.
    Lost,
    /// `--max-hold` is over. The lease is still renewed.
    MaxHold,
    /// `leasehold run` has died. The lock stays at the store until its ttl ends.
    Orphaned,
}

/// What is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// SIGTERM.
    Terminate,
    /// SIGKILL, until no process is left.
    Kill,
}

/// The end of a command, as far as its lease determines it.
#[derive(Debug)]
pub(super) struct Schedule {
    ttl: Duration,
    deadline: Moment,
    /// Why the command was asked to stop, and when it is killed at the latest.
    stopped: Option<(Reason, Moment)>,
}

impl Schedule {
    /// Of a lease that ends at `deadline` unless it is renewed.
    pub(super) fn new(ttl: Duration, deadline: Moment) -> Self {
        Self {
            ttl,
            deadline,
            stopped: None,
        }
    }

    /// The lease was renewed, or not: returns whether it lasts longer than was known. A command
    /// that was asked to stop stays so.
    pub(super) fn extend(&mut self, deadline: Moment) -> bool {
        let longer = self.deadline + ROUNDING < deadline;
        if longer {
            self.deadline = deadline;
        }
        longer
    }

    /// When the command is asked to stop unless the lease is renewed. A command does not begin
    /// after this.
    pub(super) fn terminates_at(&self) -> Moment {
        self.deadline.saturating_sub(self.ttl / 5)
    }

    /// When the command is killed at the latest.
    pub(super) fn kills_at(&self) -> Moment {
        let latest = self.deadline.saturating_sub(self.ttl / 10);
        self.stopped.map_or(latest, |(_, at)| at.min(latest))
    }

    /// When a second process kills the command, in case that the first one stands still.
    pub(super) fn backup_at(&self) -> Moment {
        self.kills_at() + self.ttl / 20
    }

    /// When [`due`](Self::due) is to be asked next.
    pub(super) fn next(&self) -> Moment {
        match self.stopped {
            None => self.terminates_at(),
            Some(_) => self.kills_at(),
        }
    }

    /// Why the command was asked to stop.
    pub(super) fn reason(&self) -> Option<Reason> {
        self.stopped.map(|(reason, _)| reason)
    }

    /// The command is to end. Returns whether it was not asked to stop before.
    pub(super) fn stop(&mut self, reason: Reason, now: Moment) -> bool {
        let grace = match reason {
            Reason::Lost => TAKEN_AWAY.min(self.ttl / 10),
            Reason::MaxHold | Reason::Orphaned => GRACE,
        };
        let (first, at) = self.stopped.unwrap_or((reason, Moment::MAX));
        let is_first = self.stopped.is_none();
        self.stopped = Some((first, at.min(now + grace)));
        is_first
    }

    /// What is to be done now. SIGTERM is due once, and not if it comes too late: it would wake a
    /// process that stands still. SIGKILL is due until the command is gone.
    pub(super) fn due(&mut self, now: Moment) -> Option<Step> {
        let overdue = self.stopped.is_none() && self.terminates_at() <= now;
        if overdue {
            // The lock is still this process's: the command has the time that is left.
            self.stopped = Some((Reason::Lost, self.kills_at()));
        }
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

    /// Fails if a command whose lease is not renewed lives until its deadline.
    #[test]
    fn a_lease_that_is_not_renewed() {
        let mut schedule = Schedule::new(TTL, at(120));
        assert_eq!(schedule.next(), at(116));
        assert_eq!(schedule.due(at(115)), None);
        assert_eq!(schedule.due(at(116)), Some(Step::Terminate));
        assert_eq!((schedule.due(at(117)), schedule.next()), (None, at(118)));
        assert_eq!(schedule.due(at(118)), Some(Step::Kill));
        assert_eq!(schedule.due(at(119)), Some(Step::Kill), "until it is gone");
        assert_eq!(schedule.backup_at(), at(119));
    }

    /// Fails if a lock that was taken away, and comes free soon, leaves the command a long time.
    #[test]
    fn a_long_lease_that_ends_and_one_that_is_taken_away() {
        let ttl = Duration::from_secs(300);
        let mut ends = Schedule::new(ttl, at(1_000));
        assert_eq!(ends.due(at(940)), Some(Step::Terminate));
        assert_eq!(ends.next(), at(970));
        let mut taken = Schedule::new(ttl, at(1_000));
        assert!(taken.stop(Reason::Lost, at(800)));
        assert_eq!(taken.next(), at(802));
    }

    /// Fails if a machine that was asleep past the deadline waits for the command to stop.
    #[test]
    fn after_a_pause_there_is_no_grace() {
        let mut schedule = Schedule::new(TTL, at(120));
        assert_eq!(schedule.due(at(200)), Some(Step::Kill));
        assert_eq!(schedule.reason(), Some(Reason::Lost));
    }

    /// Fails if a renewal does not move the end, or gives a lost lease back.
    #[test]
    fn a_renewal_moves_the_end_until_the_command_is_asked_to_stop() {
        let mut schedule = Schedule::new(TTL, at(120));
        schedule.extend(at(130));
        schedule.extend(at(125));
        assert_eq!(schedule.due(at(125)), None);
        assert!(schedule.stop(Reason::Lost, at(125)));
        schedule.extend(at(300));
        assert_eq!(schedule.due(at(127)), Some(Step::Kill));
    }

    /// Fails if a command that hangs gets no time to end, or more than its lease has.
    #[test]
    fn other_ends_leave_ten_seconds_at_most() {
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
