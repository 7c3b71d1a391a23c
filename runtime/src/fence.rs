//! The fence: a number that distinguishes an older holder from a newer one.

use std::fmt;

/// A number that grows with every acquisition of a key, as long as the store loses no data.
///
/// So the fence of an exclusive holder is unique. A nested `reentrant` call has the fence of the
/// call that took the lock.
///
/// A lease can end while its holder is asleep, which no lock service can prevent. The holder then
/// wakes up and writes, although the next holder already has the lock. Let the resource refuse such
/// a late writer: store the fence with the row, and write only where the stored fence is not
/// greater.
///
/// ```sql
/// UPDATE items SET stock = stock - 1, fence = $1 WHERE sku = $2 AND fence <= $1
/// ```
///
/// This check is enough for work that consists of one statement. A holder that reads first and
/// writes later must store its fence with the read. Otherwise an earlier holder's late write could
/// come between the read and the write.
///
/// ```sql
/// UPDATE items SET fence = $1 WHERE sku = $2 AND fence <= $1 RETURNING stock
/// UPDATE items SET stock = $3 WHERE sku = $2 AND fence = $1
/// ```
///
/// The number is `max(last + 1, the store's clock in microseconds)`, so it keeps growing when a
/// store restarts with nothing on disk. It fits a signed 64-bit column. On Redis the limit is 2^53,
/// which the clock reaches in the year 2255.
///
/// If a store loses a lock with its data, it gives the next holder of the key a greater number. A
/// process that does not know of the loss yet may still hand the lost lock over to its own calls.
/// These calls get smaller fences, which the store reserved for the process before the loss. So a
/// call with a smaller number can begin after one with a greater number, and the resource refuses
/// it. If the store loses its data and its clock is set back, the store itself gives smaller
/// numbers.
///
/// Source of the technique: Martin Kleppmann, "How to do distributed locking" (2016).
///
/// ```
/// use leasehold::Fence;
///
/// // `stored` is in the resource, and `late` comes with a write. A guard returns `guard.fence()`.
/// let (stored, late) = (Fence::from(7), Fence::from(5));
/// assert!(late < stored); // refuse the late writer
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(u64);

impl Fence {
    pub(crate) const fn new(number: u64) -> Self {
        Self(number)
    }

    pub(crate) fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// Returns the fence as a number.
    ///
    /// ```
    /// assert_eq!(leasehold::Fence::from(7).get(), 7);
    /// ```
    pub fn get(self) -> u64 {
        self.0
    }

    /// Returns the number for a signed column (`BIGINT`). Every fence from a store fits. If the
    /// program itself has created a fence above `i64::MAX`, the number is `i64::MAX`.
    ///
    /// ```
    /// let column: i64 = leasehold::Fence::from(7).as_i64();
    /// assert_eq!(column, 7);
    /// ```
    pub fn as_i64(self) -> i64 {
        i64::try_from(self.0).unwrap_or(i64::MAX)
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<u64> for Fence {
    /// Creates a fence from a number that the protected resource has stored, to compare it with
    /// another fence.
    fn from(number: u64) -> Self {
        Self::new(number)
    }
}

impl From<Fence> for u64 {
    fn from(fence: Fence) -> Self {
        fence.get()
    }
}
