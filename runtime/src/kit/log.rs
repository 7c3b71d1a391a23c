//! The log of a kit: the events of all locks of its store.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::event::{Caller, Event, EventKind};
use super::history::History;
use crate::base::clock::Instant;

/// Events of all locks of a kit's store, in order.
///
/// Each pool of the kit has an engine, which writes to this log while the engine's mutex is locked.
/// An engine records a release before it sends the request to the store, and a grant after it has
/// received the store's answer. So the log has each release before the grant that this release
/// makes possible.
pub(super) struct Log {
    /// Start of the kit, from which the times of the events are counted.
    start: Instant,
    record: Mutex<Record>,
}

#[derive(Default)]
struct Record {
    events: Vec<Event>,
    calls: u32,
    others: u32,
}

impl Log {
    pub(super) fn new(start: Instant) -> Self {
        Self {
            start,
            record: Mutex::default(),
        }
    }

    /// Returns a new caller, with the next number. Holders created by `Kit::hold` (`other`) have a
    /// separate numbering.
    pub(super) fn caller(&self, other: bool, function: &'static str) -> Caller {
        let mut record = self.record();
        let count = if other {
            &mut record.others
        } else {
            &mut record.calls
        };
        *count += 1;
        Caller {
            number: *count,
            other,
            function,
        }
    }

    /// Records an event. `until` is the end of the lease, for a grant or a renewal.
    pub(super) fn note(
        &self,
        key: &str,
        caller: &Caller,
        kind: EventKind,
        until: Option<Instant>,
        now: Instant,
    ) {
        let event = Event {
            at: self.since_start(now),
            key: key.to_owned(),
            caller: caller.clone(),
            kind,
            until: until.map(|until| self.since_start(until)),
        };
        self.record().events.push(event);
    }

    pub(super) fn history(&self) -> History {
        History::new(self.record().events.clone())
    }

    fn since_start(&self, time: Instant) -> Duration {
        time.since(self.start)
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
