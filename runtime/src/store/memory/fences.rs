//! The fences of this process.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use crate::fence::Fence;

/// The latest fence of this process. All spaces share it. So a space gives greater fences than an
/// earlier space of the same name, which was forgotten when it was no longer used.
static LAST_FENCE: AtomicU64 = AtomicU64::new(0);

/// Returns the first of `1 + reserved_fences` new fences.
pub(super) fn next_fence(reserved_fences: u32) -> Fence {
    let micros = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| u64::try_from(since.as_micros()).unwrap_or(0));
    let fence_after = |last: u64| micros.max(last + 1);
    let reserve = |last| Some(fence_after(last) + u64::from(reserved_fences));
    let last = LAST_FENCE.fetch_update(Ordering::Relaxed, Ordering::Relaxed, reserve);
    // `fetch_update` cannot fail, because `reserve` always returns a value.
    Fence::new(fence_after(last.unwrap_or_else(|last| last)))
}
