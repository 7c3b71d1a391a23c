//! Limits on how long this process may keep a key by handing it over from call to call.
//!
//! A hand-over gives the key to the next call of this process, without a request to the store. Each
//! uses one of the fences that the store reserved with the grant. Once another process waits, the
//! number of further hand-overs and the time for them are limited, too.

use std::time::Duration;

use crate::base::clock::Instant;
use crate::fence::Fence;

/// Maximum number of fences that one acquire reserves. Each call that gets the key by a hand-over
/// uses one of them.
pub(super) const MOST_RESERVED_FENCES: u32 = 64;

/// The period in which this process may hand a key over among its own calls.
#[derive(Debug, Default)]
pub(super) struct Tenure {
    /// True if the store queues the waiting processes, and gives the key to the first of them next.
    fair: bool,
    /// Number of hand-overs since another process began to wait, or since the grant if none waits.
    handed_over: u32,
    /// Time since which another process is known to wait.
    wanted_since: Option<Instant>,
    /// Number of reserved fences left.
    reserved_fences: u32,
    fence: Option<Fence>,
}

impl Tenure {
    /// Begins a tenure. `wanted` is true if another process waits; none if the store has no queue.
    pub(super) fn begin(
        fence: Option<Fence>,
        reserved_fences: u32,
        wanted: Option<bool>,
        now: Instant,
    ) -> Self {
        Self {
            fair: wanted.is_some(),
            handed_over: 0,
            wanted_since: wanted.unwrap_or_default().then_some(now),
            reserved_fences,
            fence,
        }
    }

    pub(super) fn is_fair(&self) -> bool {
        self.fair
    }

    /// Records that another process begins to wait.
    pub(super) fn wanted(&mut self, now: Instant) {
        if self.wanted_since.is_none() {
            self.wanted_since = Some(now);
            self.handed_over = 0;
        }
    }

    /// True if the key may be handed over once more. Each hand-over needs a reserved fence. After
    /// another process begins to wait, at most `most` hand-overs follow, within `longest`.
    pub(super) fn may_go_on(&self, most: u32, longest: Duration, now: Instant) -> bool {
        0 < self.reserved_fences
            && self
                .wanted_since
                .is_none_or(|wanted| self.handed_over < most && now.since(wanted) < longest)
    }

    /// Prevents further hand-overs, because each needs a reserved fence.
    pub(super) fn end(&mut self) {
        self.reserved_fences = 0;
    }

    /// Counts a hand-over. Returns the successor's fence, which is greater than all earlier fences.
    pub(super) fn next_fence(&mut self) -> Option<Fence> {
        self.handed_over += 1;
        self.reserved_fences = self.reserved_fences.saturating_sub(1);
        self.fence = self.fence.map(Fence::next);
        self.fence
    }
}
