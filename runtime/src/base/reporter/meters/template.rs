//! The meters of each key template, such as `order:<id>`.

use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::times::Times;
use super::{counted, guarded};
use crate::base::outcome::{End, Outcome};

/// Name under which calls without a known template are counted.
pub(crate) const OTHER: &str = "other";

/// Maximum number of templates with a meter, besides [`OTHER`]. The number is limited, because
/// meters are never freed. Calls with further templates are counted as [`OTHER`].
const MOST: usize = 1_000;

/// The value that one waiting call adds to [`Meter::present`]. The lower 32 bits of that field
/// count the calls that hold locks.
const ASKING: u64 = 1 << 32;

/// The counters of all calls with one template.
pub(crate) struct Meter {
    template: &'static str,
    /// Number of calls that wait for locks, and number of calls that hold locks. Both numbers are
    /// in one atomic, so that a call moves from the first number to the second in one step.
    present: AtomicU64,
    /// The last value of `present` that was reported to the recorder. Only the reporter thread uses
    /// this field.
    published: AtomicU64,
    lost: AtomicU64,
    /// True if the template was reported to the recorder. Only the reporter thread uses this field.
    announced: AtomicBool,
    acquire: [Times; Outcome::ALL.len()],
    held: [Times; End::ALL.len()],
    /// The meter of the next template. The meters are a linked list, which needs no mutex. If a
    /// low-priority thread were preempted while it holds a mutex, all other threads would wait.
    next: OnceLock<Box<Self>>,
}

/// A reference to the meter of a template.
pub(crate) type Handle = &'static Meter;

static FIRST: Meter = Meter::new(OTHER);

impl Meter {
    const fn new(template: &'static str) -> Self {
        Self {
            template,
            present: AtomicU64::new(0),
            published: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            announced: AtomicBool::new(false),
            acquire: [const { Times::new() }; Outcome::ALL.len()],
            held: [const { Times::new() }; End::ALL.len()],
            next: OnceLock::new(),
        }
    }

    /// Returns the meter of a template. Adds the meter if it does not exist.
    pub(crate) fn of(template: &'static str) -> &'static Self {
        FIRST.find(template)
    }

    /// Returns the meter of the template, and adds it if it does not exist. Must be called on the
    /// first meter of the list, that of [`OTHER`], which is also returned if the list is full.
    fn find(&'static self, template: &'static str) -> &'static Self {
        let is_its = |meter: &Self| ptr::eq(meter.template, template) || meter.template == template;
        let mut meter = self;
        for _ in 0..MOST {
            if is_its(meter) {
                return meter;
            }
            let next = || Box::new(Self::new(template));
            meter = meter.next.get_or_init(next);
        }
        if is_its(meter) { meter } else { self }
    }

    pub(super) fn all() -> impl Iterator<Item = &'static Self> {
        FIRST.chain()
    }

    /// Returns this meter and all later ones in the list.
    fn chain(&'static self) -> impl Iterator<Item = &'static Self> {
        std::iter::successors(Some(self), |meter| meter.next.get().map(|next| &**next))
    }

    pub(crate) fn template(&self) -> &'static str {
        self.template
    }

    /// Records that a call begins to wait for its locks.
    pub(crate) fn asks(&self) {
        self.present.fetch_add(ASKING, Ordering::SeqCst);
        counted();
    }

    /// Records that a waiting call got its answer or gave up after `waited`. `holds` is true if the
    /// call now holds locks that it has taken itself, and not an enclosing call.
    pub(crate) fn answered(&self, outcome: Outcome, waited: Duration, holds: bool) {
        self.acquire[outcome as usize].add(waited);
        self.present
            .fetch_sub(ASKING - u64::from(holds), Ordering::SeqCst);
        counted();
    }

    /// Records that a call was refused before it began to wait.
    pub(crate) fn refused(&self, outcome: Outcome) {
        self.acquire[outcome as usize].add(Duration::ZERO);
        counted();
    }

    /// Records that a call no longer holds its locks.
    pub(crate) fn let_go(&self) {
        self.present.fetch_sub(1, Ordering::SeqCst);
        counted();
    }

    /// Records the reason for the end of a call's locks, and the time for which the call held them.
    pub(crate) fn ended(&self, end: End, held: Duration) {
        self.held[end as usize].add(held);
        counted();
    }

    /// Records a lost lease.
    pub(crate) fn lost(&self) {
        self.lost.fetch_add(1, Ordering::SeqCst);
        counted();
    }

    /// Passes on the template's new counts and durations. Returns true if there were any.
    pub(super) fn publish(&self) -> bool {
        let mut found = self.publish_times();
        let present = self.present.load(Ordering::SeqCst);
        if self.published.swap(present, Ordering::Relaxed) != present {
            self.publish_present(present);
            found = true;
        }
        let lost = self.lost.swap(0, Ordering::SeqCst);
        if 0 < lost {
            self.publish_lost(lost);
            found = true;
        }
        if found && !self.announced.swap(true, Ordering::Relaxed) {
            self.publish_again();
        }
        found
    }

    /// Reports the gauges of a template in use, even if they have not changed. Also creates the
    /// counter of losses with the value zero. If the first loss created the counter, it would start
    /// at one, and an alert would not see an increase.
    pub(super) fn publish_again(&self) {
        if self.announced.load(Ordering::Relaxed) {
            self.publish_present(self.present.load(Ordering::SeqCst));
            self.publish_lost(0);
            for outcome in Outcome::ALL {
                guarded(|| drop(self.acquire_seconds(outcome)));
            }
        }
    }

    fn acquire_seconds(&self, outcome: Outcome) -> metrics::Histogram {
        metrics::histogram!("leasehold_acquire_seconds", "lock" => self.template, "outcome" => outcome.name())
    }

    fn publish_times(&self) -> bool {
        let mut found = false;
        for (outcome, times) in Outcome::ALL.into_iter().zip(&self.acquire) {
            found |= times.publish(|| self.acquire_seconds(outcome));
        }
        for (end, times) in End::ALL.into_iter().zip(&self.held) {
            found |= times.publish(|| {
                metrics::histogram!("leasehold_held_seconds", "lock" => self.template, "end" => end.name())
            });
        }
        found
    }

    /// Reports the number of waiting calls and of calls that hold locks.
    fn publish_present(&self, present: u64) {
        let (waiting, held) = (present / ASKING, present % ASKING);
        guarded(|| {
            metrics::gauge!("leasehold_waiting", "lock" => self.template).set(number(waiting));
            metrics::gauge!("leasehold_held", "lock" => self.template).set(number(held));
        });
    }

    fn publish_lost(&self, lost: u64) {
        guarded(|| {
            metrics::counter!("leasehold_lost_total", "lock" => self.template).increment(lost);
        });
    }
}

fn number(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails if one template has two meters, or if two templates share a meter. Also fails if the
    /// number of meters is not limited, or if the last meter is not used.
    #[test]
    fn each_template_has_one_meter_up_to_a_limit() {
        let first: &'static Meter = Box::leak(Box::new(Meter::new(OTHER)));
        let one = first.find("order:<id>");
        let text = String::from("order:<id>").leak();
        assert!(ptr::eq(one, first.find(text)));
        assert!(!ptr::eq(one, first.find("item:<sku>")));
        for number in 0..2 * MOST {
            first.find(format!("{number}").leak());
        }
        assert_eq!(first.chain().count(), 1 + MOST);
        // Two templates were added before the loop.
        for (number, is_counted) in [(MOST - 3, true), (MOST - 2, false)] {
            let template = first.find(number.to_string().leak()).template();
            assert_eq!(template != OTHER, is_counted, "{number}");
        }
    }
}
