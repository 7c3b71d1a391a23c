//! Alarms for waits with a time limit that the core does not watch. One example is a nested call
//! that waits to enter the lock of its enclosing call. An alarm wakes its caller at the time limit.
//!
//! The engine provides these timers, because a caller may run on an executor without timers.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::mem;

use tokio::sync::oneshot;

use crate::base::clock::Instant;

/// The callers to wake, each with its time.
#[derive(Debug, Default)]
pub(super) struct Alarms {
    due: BinaryHeap<Reverse<Alarm>>,
    /// Number of alarms left after the last sweep, which removed the alarms of dropped callers. The
    /// next sweep starts at twice this number plus [`SWEEP_EVERY`].
    swept: usize,
}

/// Minimum number of new alarms between two sweeps, because each sweep visits all alarms.
const SWEEP_EVERY: usize = 64;

#[derive(Debug)]
struct Alarm {
    at: Instant,
    caller: oneshot::Sender<()>,
}

impl Alarms {
    /// Sets an alarm. May also return alarms of dropped callers. Drop them only after the engine's
    /// mutex is released: this drops the callers' wakers, which run the program's code.
    pub(super) fn set(
        &mut self,
        at: Instant,
        caller: oneshot::Sender<()>,
    ) -> Vec<oneshot::Sender<()>> {
        let swept = if 2 * self.swept + SWEEP_EVERY <= self.due.len() {
            self.sweep()
        } else {
            Vec::new()
        };
        self.due.push(Reverse(Alarm { at, caller }));
        swept
    }

    fn sweep(&mut self) -> Vec<oneshot::Sender<()>> {
        let alarms = mem::take(&mut self.due).into_iter();
        let (gone, due): (Vec<_>, Vec<_>) =
            alarms.partition(|Reverse(alarm)| alarm.caller.is_closed());
        self.due = due.into();
        self.swept = self.due.len();
        gone.into_iter()
            .map(|Reverse(alarm)| alarm.caller)
            .collect()
    }

    /// Takes all alarms.
    pub(super) fn take(&mut self) -> Vec<oneshot::Sender<()>> {
        let alarms = mem::take(self).due.into_iter();
        alarms.map(|Reverse(alarm)| alarm.caller).collect()
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.peek().map(|Reverse(first)| first.at)
    }

    /// Takes the due alarms.
    pub(super) fn due(&mut self, now: Instant) -> Vec<oneshot::Sender<()>> {
        let mut due = Vec::new();
        while self.next_due().is_some_and(|at| at <= now) {
            due.extend(self.due.pop().map(|Reverse(alarm)| alarm.caller));
        }
        due
    }
}

impl Ord for Alarm {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at.cmp(&other.at)
    }
}

impl PartialOrd for Alarm {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Alarm {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for Alarm {}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn abandoned_alarms_do_not_pile_up() {
        let mut alarms = Alarms::default();
        let now = Instant::from_nanos(1);
        let (first, mut waits) = oneshot::channel();
        alarms.set(now + Duration::from_secs(1), first);
        for _ in 0..1000 {
            let (caller, gone) = oneshot::channel();
            alarms.set(now + Duration::from_secs(3600), caller);
            drop(gone);
        }
        assert!(alarms.due.len() <= 2 * SWEEP_EVERY, "{}", alarms.due.len());
        assert!(alarms.due(now).is_empty());
        let due = alarms.due(now + Duration::from_secs(1));
        assert_eq!(due.len(), 1);
        for caller in due {
            let _ = caller.send(());
        }
        assert_eq!(waits.try_recv(), Ok(()));
    }
}
