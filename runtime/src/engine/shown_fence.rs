//! The fence of a lease cell. Records whether the program has read it.

use crate::base::sync::{atomic::AtomicU8, atomic::AtomicU64, atomic::Ordering};
use crate::fence::Fence;

/// Value of `number` while there is no fence. No store issues this number, because every fence fits
/// a signed 64-bit integer.
const NO_FENCE: u64 = u64::MAX;

/// Bit of `used`: the program has read the fence. A database transaction may then verify the fence,
/// and hold the lock until the transaction ends.
const READ: u8 = 1;

/// Bit of `used`: the holder has begun its release.
const CLOSED: u8 = 2;

/// The fence of one acquisition.
pub(super) struct ShownFence {
    /// [`NO_FENCE`] while there is no fence.
    number: AtomicU64,
    /// See [`LockStore::verifies`](crate::store::LockStore::verifies).
    verifies: bool,
    /// The bits [`READ`] and [`CLOSED`]. A set bit stays set.
    used: AtomicU8,
}

impl ShownFence {
    pub(super) fn new(verifies: bool) -> Self {
        Self {
            number: AtomicU64::new(NO_FENCE),
            verifies,
            used: AtomicU8::new(0),
        }
    }

    pub(super) fn set(&self, fence: Option<Fence>) {
        let number = fence.map_or(NO_FENCE, Fence::get);
        self.number.store(number, Ordering::Release);
    }

    /// Returns the fence for spans and debug output. They start no transaction with it, so this
    /// does not count as a read.
    pub(super) fn peek(&self) -> Option<Fence> {
        let number = self.number.load(Ordering::Acquire);
        (number != NO_FENCE).then(|| Fence::new(number))
    }

    /// Returns the fence for the program. If the store verifies fences, returns none when the first
    /// read comes after the release. By then the lock may have been handed over to the next call,
    /// and the store would accept the fences of both calls.
    pub(super) fn read(&self) -> Option<Fence> {
        let note = |used| (used != CLOSED).then_some(used | READ);
        let noted = self
            .used
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, note);
        self.peek().filter(|_| noted.is_ok() || !self.verifies)
    }

    /// Records that the holder begins its release.
    pub(super) fn close(&self) {
        self.used.fetch_or(CLOSED, Ordering::SeqCst);
    }

    /// True if a database transaction may have verified the fence, and so may hold the lock even
    /// after the release.
    pub(super) fn may_pin(&self) -> bool {
        self.verifies && self.used.load(Ordering::SeqCst) & READ != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The program first reads the fence after the release. Fails if it gets the fence of a store
    /// that verifies fences. Its transactions could then overlap with those of the next call.
    #[test]
    fn a_fence_first_read_after_the_release_is_withheld() {
        let fence = Some(Fence::new(7));
        for (verifies, reads) in [(true, true), (true, false), (false, true), (false, false)] {
            let shown = ShownFence::new(verifies);
            shown.set(fence);
            if reads {
                assert_eq!(shown.read(), fence);
            }
            assert_eq!(shown.may_pin(), verifies && reads);
            shown.close();
            for _ in 0..2 {
                let late = fence.filter(|_| reads || !verifies);
                assert_eq!(shown.read(), late, "{verifies} {reads}");
                assert_eq!(shown.may_pin(), verifies && reads);
            }
            assert_eq!(shown.peek(), fence, "spans show it");
        }
    }
}
