//! A held lock, whose renewal becomes due during an outage of the store.

use std::time::Duration;

use leasehold::__test::{deadline, now};
use leasehold::{LockGuard, LockInfo, LockPool, LockState};

use crate::lateness::Excuse;
use crate::wait;

const LONG: Duration = Duration::from_secs(60);

/// Number of rounds of which two must count.
const ROUNDS: u32 = 20;

/// A held lock with a watchdog, shortly before its first renewal.
///
/// A test begins an outage, calls [`outlasts`](Self::outlasts), ends the outage, and calls
/// [`succeeds`](Self::succeeds).
#[derive(Debug)]
#[must_use]
pub struct Renewal {
    pool: LockPool,
    guard: LockGuard,
    ttl: Duration,
    /// End of the lease before the renewal, in nanoseconds of `leasehold::__test::now`.
    end: u64,
    /// True if a renewal was confirmed before the outage.
    is_early: bool,
    excuse: Excuse,
}

impl Renewal {
    /// Takes the lock, and waits until its renewal is due in a twentieth of the ttl.
    ///
    /// # Panics
    ///
    /// Panics if the lock is not granted.
    pub async fn near(pool: &LockPool, key: &str, ttl: Duration) -> Self {
        let excuse = Excuse::begin();
        let request = pool.lock(key).ttl(ttl).watchdog().wait(LONG);
        let guard = request.acquire().await.expect("it is free");
        let end = deadline(&guard.handle());
        // A lease is slightly shorter than its ttl. It is renewed after a third of its ttl.
        let lease = (ttl * 99 / 100).saturating_sub(Duration::from_millis(2));
        let left = (lease + ttl / 20).saturating_sub(ttl / 3);
        tokio::time::sleep(guard.remaining().saturating_sub(left)).await;
        Self {
            pool: pool.clone(),
            guard,
            ttl,
            end,
            is_early: false,
            excuse,
        }
    }

    /// Waits until the outage has lasted for `length`. The pool has then sent the renewal.
    ///
    /// # Panics
    ///
    /// Panics if the renewal is not due within `length`.
    pub async fn outlasts(&mut self, length: Duration) {
        assert!(self.ttl / 20 < length, "too short for the renewal");
        tokio::time::sleep(length).await;
        self.is_early = self.end < deadline(&self.guard.handle());
    }

    /// Waits until the lease is renewed, and until the store shows this. Then releases the lock.
    /// Returns false if the round does not count, because a busy machine delayed it.
    ///
    /// # Panics
    ///
    /// Panics if the lease is lost.
    pub async fn succeeds(self) -> bool {
        let handle = self.guard.handle();
        let changed = || deadline(&handle) != self.end;
        wait::until_async("the lease is renewed or lost", LONG, changed).await;
        let kept = self.guard.check();
        // After the outage, two fifths of the ttl are left. A new connection and a renewal need
        // less than eight of the longest delays.
        let is_late = kept.is_err() && self.ttl / 20 < self.excuse.longest();
        if self.is_early || is_late {
            // The lock may be lost, so the result is ignored.
            let _ = self.guard.release().await;
            return false;
        }
        kept.expect("it was renewed");
        let shown = async {
            loop {
                let lock = self.pool.inspect(self.guard.key()).await;
                if lock.is_ok_and(|lock| self.is_shown_in(&lock)) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        wait::within("the store shows the renewal", LONG, Box::pin(shown)).await;
        self.guard.release().await.expect("still held");
        true
    }

    /// True if the lock has its first fence, and ends later than without the renewal. ZooKeeper
    /// does not report the end.
    fn is_shown_in(&self, lock: &LockInfo) -> bool {
        let [holder] = &lock.holders[..] else {
            return false;
        };
        // On the server, the lease lasts longer than in this process, by a hundredth of the ttl.
        let unrenewed = self.end + nanos(self.ttl / 20);
        let ends_later = |left: Duration| unrenewed < now() + nanos(left);
        lock.state == LockState::Exclusive
            && holder.fence == self.guard.fence()
            && holder.expires_in.is_none_or(ends_later)
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Runs `round` with increasing numbers, until it has returned true twice. A round returns true if
/// it counts.
///
/// # Panics
///
/// Panics if too few rounds count.
pub async fn twice(mut round: impl AsyncFnMut(u32) -> bool) {
    let mut counted = 0;
    for number in 0..ROUNDS {
        counted += u32::from(round(number).await);
        if counted == 2 {
            return;
        }
    }
    panic!("{counted} of {ROUNDS} rounds count: the machine is too busy");
}
