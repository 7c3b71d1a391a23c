//! The observation of a call: its spans, and its metrics, which are grouped by key template.
//!
//! A call requests its locks ([`Asking`]), and is then refused or holds them ([`Holding`]). The
//! call's future owns these two values. So the spans are created, entered and closed in the
//! caller's own task. The `tracing` subscriber is the program's code, and never runs under the
//! engine's mutex. If it blocks, it delays only the call that it observes. If it panics, it ends at
//! most that call, and the call's locks are released.
//!
//! A call counts its metrics in atomics, from which the [reporter thread](crate::base::reporter)
//! collects them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use tracing::Span;
use tracing::field::{Empty, display};
use tracing::span::Entered;

use crate::base::clock::{Clock, Instant};
use crate::base::label::Label;
use crate::base::outcome::{End, Outcome};
use crate::error::LockError;
use crate::lock::nest::leases::Locks;
use crate::pool::LockPool;

/// The target of the spans, by which a subscriber selects them.
const TARGET: &str = "leasehold";

/// Span and metrics of a call that requests its locks. If this is dropped before an outcome is
/// recorded, it records [`Outcome::Dropped`].
pub(crate) struct Asking {
    label: Label,
    clock: Clock,
    /// Time of the request. None if neither the metrics nor a span need it.
    since: Option<Instant>,
    span: Span,
    /// True if the spans show the keys: the pool
    /// [logs keys](crate::LockPoolBuilder::log_keys), and the span is enabled.
    shows_keys: bool,
    is_over: bool,
}

/// Span and metrics of a call that holds its locks. Dropping this closes the span, and counts the
/// time for which the locks were held.
pub(crate) struct Holding {
    label: Label,
    clock: Clock,
    since: Option<Instant>,
    span: Span,
    /// True if the call has taken a lock itself. A call that has only entered locks of an enclosing
    /// call has a span, but is not counted.
    counts: bool,
    /// The end and its time, which is none if `since` is none.
    closed: Option<(End, Option<Instant>)>,
}

/// The keys of a call, for a span.
struct Keys<'a>(&'a Locks);

impl Asking {
    /// Begins to observe a call that requests these locks.
    pub(crate) fn begin(pool: &LockPool, locks: &Locks, label: Label) -> Self {
        // The span is created before the call is counted. Otherwise, if the subscriber panicked
        // here, the metrics would show the call as waiting forever.
        let span = acquire_span(label);
        let shows_keys = pool.logs_keys() && !span.is_disabled();
        if shows_keys {
            span.record("lock.key", display(Keys(locks)));
        }
        label.meter().asks();
        let observed = cfg!(feature = "metrics") || !span.is_disabled();
        let clock = pool.engine().clock();
        Self {
            label,
            clock,
            since: observed.then(|| clock.now()),
            span,
            shows_keys,
            is_over: false,
        }
    }

    pub(crate) fn refused(mut self, error: &LockError) {
        let (_, waited) = self.time(None);
        self.ends(Outcome::of(error), waited, false);
    }

    /// Records that the call got a kept result instead of its lock.
    pub(crate) fn replayed(mut self) {
        let (_, waited) = self.time(None);
        self.ends(Outcome::Replayed, waited, false);
    }

    /// Records that the call holds `locks`. `entered` is true if an enclosing call has taken all of
    /// them. `now` is the current time, if known.
    pub(crate) fn granted(mut self, locks: &Locks, entered: bool, now: Option<Instant>) -> Holding {
        let (now, waited) = self.time(now);
        // If the subscriber panics here, the call gives up its locks like any dropped call.
        let span = held_span(self.label);
        guarded(|| {
            if self.shows_keys {
                span.record("lock.key", display(Keys(locks)));
            }
            let fence = locks.peek_fence();
            for span in [&self.span, &span] {
                if let Some(fence) = fence {
                    span.record("lock.fence", fence.get());
                }
            }
            span.record("lock.waited_ms", millis(waited));
        });
        let outcome = if entered {
            Outcome::Entered
        } else {
            Outcome::Granted
        };
        self.ends(outcome, waited, !entered);
        Holding {
            label: self.label,
            clock: self.clock,
            since: now,
            span,
            counts: !entered,
            closed: None,
        }
    }

    /// Returns the current time, and the time since the call requested its locks. Returns none and
    /// zero if nothing needs them. `now` is the current time, if the caller knows it.
    fn time(&self, now: Option<Instant>) -> (Option<Instant>, Duration) {
        let now = self.since.map(|_| now.unwrap_or_else(|| self.clock.now()));
        let waited = now.zip(self.since).map(|(now, since)| now.since(since));
        (now, waited.unwrap_or_default())
    }

    /// Records the outcome of the acquire. `holds` is true if the call now counts as a holder.
    fn ends(&mut self, outcome: Outcome, waited: Duration, holds: bool) {
        guarded(|| {
            self.span.record("lock.waited_ms", millis(waited));
            self.span.record("lock.outcome", outcome.name());
        });
        self.label.meter().answered(outcome, waited, holds);
        self.is_over = true;
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        if !self.is_over {
            let (_, waited) = self.time(None);
            self.ends(Outcome::Dropped, waited, false);
        }
        close(&mut self.span);
    }
}

impl Holding {
    /// Enters the span of the held locks, until the returned value is dropped.
    pub(crate) fn enter(&self) -> Entered<'_> {
        self.span.enter()
    }

    /// Records that the call no longer holds its locks, and the reason. Does nothing if an end is
    /// already recorded.
    pub(crate) fn close(&mut self, end: End) {
        if self.closed.is_some() {
            return;
        }
        self.closed = Some((end, self.since.map(|_| self.clock.now())));
        if self.counts {
            self.label.meter().let_go();
        }
    }

    /// Changes the recorded end to a loss, because the release found the lock gone.
    pub(crate) fn was_lost(&mut self) {
        if let Some((end, _)) = &mut self.closed {
            *end = End::Lost;
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.is_some()
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        self.close(End::Dropped);
        if let Some((end, closed)) = self.closed {
            if self.counts {
                let times = closed.zip(self.since);
                let held = times.map_or(Duration::ZERO, |(closed, since)| closed.since(since));
                self.label.meter().ended(end, held);
            }
            guarded(|| {
                self.span.record("lock.outcome", end.name());
            });
        }
        close(&mut self.span);
    }
}

/// Records a call that was refused before it could request its locks.
pub(crate) fn refused(label: Label, error: &LockError) {
    let outcome = Outcome::of(error);
    label.meter().refused(outcome);
    acquire_span(label).record("lock.outcome", outcome.name());
}

/// A span of a call. This is a macro, because `tracing` needs the name as a literal.
macro_rules! span_of {
    ($name:literal, $label:expr) => {
        tracing::info_span!(
            target: TARGET,
            $name,
            lock.template = $label.template(),
            lock.key = Empty,
            lock.fence = Empty,
            lock.waited_ms = Empty,
            lock.outcome = Empty,
        )
    };
}

fn acquire_span(label: Label) -> Span {
    span_of!("leasehold::acquire", label)
}

fn held_span(label: Label) -> Span {
    span_of!("leasehold::held", label)
}

/// Drops this handle of a span. If it is the last handle, the subscriber is notified of the span's
/// end.
fn close(span: &mut Span) {
    if !span.is_disabled() {
        guarded(|| drop(std::mem::replace(span, Span::none())));
    }
}

/// Runs `report`, which calls the subscriber. If the subscriber panics, only this report is lost,
/// and the call continues. Otherwise, a panic during a `drop` could end the process.
fn guarded(report: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(report));
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl std::fmt::Display for Keys<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, name) in self.0.names().enumerate() {
            f.write_str(if index == 0 { "" } else { ", " })?;
            f.write_str(name)?;
        }
        Ok(())
    }
}
