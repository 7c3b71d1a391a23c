//! What operators see of a call: its spans, and its metrics by the template of its keys.
//!
//! A call asks ([`Asking`]), and then it is refused or holds its locks ([`Holding`]). Both live in
//! the call. So the spans are made, entered and closed on the caller's own task: a subscriber is
//! the program's code, and none of it runs under the engine's mutex. A subscriber that blocks
//! delays its caller alone. A subscriber that panics ends at most the call that it is told of, and
//! the locks of that call are released.
//!
//! Metrics go to atomics, from where the [reporter thread](crate::base::reporter) takes them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use tracing::Span;
use tracing::field::{Empty, display};
use tracing::span::Entered;

use super::leases::Locks;
use crate::base::clock::{Clock, Instant};
use crate::base::label::Label;
use crate::base::outcome::{End, Outcome};
use crate::error::LockError;
use crate::fence::Fence;

/// The target of the spans, by which a subscriber selects them.
const TARGET: &str = "leasehold";

/// A call that asks for its locks. If it is dropped, the call has given up.
pub(crate) struct Asking {
    label: Label,
    clock: Clock,
    /// None if nothing is told of this call.
    since: Option<Instant>,
    span: Span,
    /// Shown in the spans; none if the pool does not [log keys](crate::LockPoolBuilder::log_keys).
    keys: Option<Keys>,
    is_over: bool,
}

/// A call that holds its locks. What is told of it is complete when this is dropped.
pub(crate) struct Holding {
    label: Label,
    clock: Clock,
    since: Option<Instant>,
    span: Span,
    /// Whether the call has taken a lock itself. A call that has only entered locks of an enclosing
    /// call has a span, and is not counted.
    counts: bool,
    closed: Option<(End, Duration)>,
}

/// The keys of a call, for a span.
struct Keys(Locks);

impl Asking {
    /// The call begins to ask. With `log_keys` its keys are shown in its spans.
    pub(crate) fn begin(label: Label, locks: &Locks, clock: Clock, log_keys: bool) -> Self {
        // First the span: if the subscriber panics, no call is counted.
        let span = acquire_span(label);
        let keys = (log_keys && !span.is_disabled()).then(|| Keys(locks.clone()));
        if let Some(keys) = &keys {
            span.record("lock.key", display(keys));
        }
        #[cfg(feature = "metrics")]
        label.meter().asks();
        let observed = cfg!(feature = "metrics") || !span.is_disabled();
        Self {
            label,
            clock,
            since: observed.then(|| clock.now()),
            span,
            keys,
            is_over: false,
        }
    }

    /// The call is refused.
    pub(crate) fn refused(mut self, error: &LockError) {
        let (_, waited) = self.time(None);
        self.ends(Outcome::of(error), waited, false);
    }

    /// A result that is kept answers the call, which holds no lock.
    pub(crate) fn replayed(mut self) {
        let (_, waited) = self.time(None);
        self.ends(Outcome::Replayed, waited, false);
    }

    /// The call holds its locks. `entered`: whether an enclosing call has taken all of them. `now`:
    /// the present time, where it is known.
    pub(crate) fn granted(
        mut self,
        fence: Option<Fence>,
        entered: bool,
        now: Option<Instant>,
    ) -> Holding {
        let (now, waited) = self.time(now);
        // If the subscriber panics here, the call gives its locks up as any that is dropped.
        let span = held_span(self.label);
        told(|| {
            if let Some(keys) = &self.keys {
                span.record("lock.key", display(keys));
            }
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

    /// The present time, which may be known, and how long the call has asked.
    fn time(&self, now: Option<Instant>) -> (Option<Instant>, Duration) {
        let now = self.since.map(|_| now.unwrap_or_else(|| self.clock.now()));
        let waited = now.zip(self.since).map(|(now, since)| now.since(since));
        (now, waited.unwrap_or_default())
    }

    /// Tells what the call got.
    fn ends(&mut self, outcome: Outcome, waited: Duration, holds: bool) {
        told(|| {
            self.span.record("lock.waited_ms", millis(waited));
            self.span.record("lock.outcome", outcome.name());
        });
        #[cfg(feature = "metrics")]
        self.label.meter().answered(outcome, waited, holds);
        #[cfg(not(feature = "metrics"))]
        let _ = holds;
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
    /// The held span is the present one while the result of this lives.
    pub(crate) fn enter(&self) -> Entered<'_> {
        self.span.enter()
    }

    /// The call holds its locks no more. What was said of its end first stays.
    pub(crate) fn close(&mut self, end: End) {
        if self.closed.is_some() {
            return;
        }
        let held = self.since.map(|since| self.clock.now().since(since));
        self.closed = Some((end, held.unwrap_or_default()));
        #[cfg(feature = "metrics")]
        if self.counts {
            self.label.meter().let_go();
        }
    }

    /// The release found the lock gone: it had been lost.
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
        if let Some((end, held)) = self.closed {
            #[cfg(feature = "metrics")]
            if self.counts {
                self.label.meter().ended(end, held);
            }
            #[cfg(not(feature = "metrics"))]
            let _ = (self.label, self.counts, held);
            told(|| {
                self.span.record("lock.outcome", end.name());
            });
        }
        close(&mut self.span);
    }
}

/// Tells of a call that was refused before it could ask.
pub(crate) fn refused(label: Label, error: &LockError) {
    let outcome = Outcome::of(error);
    #[cfg(feature = "metrics")]
    label.meter().refused(outcome);
    acquire_span(label).record("lock.outcome", outcome.name());
}

/// A span of a call; its name is part of the code that `tracing` makes of it.
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

/// The subscriber hears of a span's end when the last handle is dropped.
fn close(span: &mut Span) {
    if !span.is_disabled() {
        told(|| drop(std::mem::replace(span, Span::none())));
    }
}

/// Calls the subscriber. If it panics, only what `tell` tells is lost: the call goes on, and a drop
/// does not end the process.
fn told(tell: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(tell));
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl std::fmt::Display for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, name) in self.0.names().enumerate() {
            f.write_str(if index == 0 { "" } else { ", " })?;
            f.write_str(name)?;
        }
        Ok(())
    }
}
