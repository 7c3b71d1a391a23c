//! Leases of one process ("tenants"), renewed by a watchdog. In most scenes, none of them may be
//! lost.

use std::time::{Duration, Instant};

use leasehold::{LockError, LockGuard, LockPool};
use tokio::runtime::Runtime;

use crate::chaos::ground::{connect, runtime};
use crate::chaos::sheet::Sheet;
use crate::lateness::Excuse;

pub(super) const TTL: Duration = Duration::from_secs(2);
/// Time after which a lease of `TTL` would have ended without renewals.
pub(super) const LONG_FOR_A_LEASE: Duration = Duration::from_secs(5);
/// Bound on the time from a release until the next process has the lock. If the notification of
/// this process is lost or refused, the process gets the lock only when it repeats its request,
/// within this time.
const TURN: Duration = Duration::from_secs(3);
const LONG: Duration = Duration::from_secs(30);

/// The leases, and the pool that holds them.
pub(super) struct Tenants {
    pub(super) runtime: Runtime,
    pub(super) pool: LockPool,
    url: String,
    guards: Vec<LockGuard>,
}

impl Tenants {
    /// Takes the locks `tenant-0`, `tenant-1` and so on, with a watchdog.
    pub(super) fn move_in(url: &str, many: usize) -> Self {
        Self::move_in_for(TTL, url, many)
    }

    /// Like `move_in`, but with another ttl.
    pub(super) fn move_in_for(ttl: Duration, url: &str, many: usize) -> Self {
        let runtime = runtime(2);
        let pool = runtime.block_on(connect(url));
        let mut tenants = Self {
            runtime,
            pool,
            url: url.to_owned(),
            guards: Vec::new(),
        };
        let asked = (0..many).map(|number| {
            let key = format!("tenant-{number}");
            tenants.pool.lock(key).ttl(ttl).wait(LONG).watchdog()
        });
        let taking = asked.map(|asked| tenants.runtime.spawn(asked.acquire()));
        let taking: Vec<_> = taking.collect();
        for taken in taking {
            let taken = tenants.runtime.block_on(taken).expect("no panic");
            tenants.guards.push(taken.expect("it is free"));
        }
        tenants
    }

    /// Takes another lock with a watchdog.
    pub(super) fn take(&self, key: &str, ttl: Duration) -> LockGuard {
        let asked = self.pool.lock(key).ttl(ttl).wait(LONG).watchdog();
        let taken = self.runtime.block_on(asked.acquire());
        taken.unwrap_or_else(|error| panic!("{key}: {error}"))
    }

    /// Connects another pool, which stands for another process.
    pub(super) fn other(&self) -> LockPool {
        self.runtime.block_on(connect(&self.url))
    }

    /// Fails the requirement if a lease was lost.
    pub(super) fn last(&self, sheet: &Sheet, scene: &str) {
        sheet.faults(scene, 1);
        sheet.sections(self.guards.len() as u64);
        let all = self.guards.len();
        let lost = self.guards.iter().filter(|guard| guard.check().is_err());
        let lost = lost.count();
        sheet.check(lost == 0, || {
            format!("{scene}: {lost} of {all} leases were lost")
        });
    }

    /// Releases a lock while another process waits for it. Fails the requirement if that process
    /// does not get the lock within `TURN`.
    pub(super) fn turn(&self, sheet: &Sheet, scene: &str, key: &str) {
        let other = self.other();
        let guard = self.take(key, TTL);
        let excuse = Excuse::begin();
        let took = self.runtime.block_on(async {
            let waits = tokio::spawn(other.lock(key).ttl(TTL).wait(LONG).acquire());
            // By the end of this sleep, the call is in the queue.
            tokio::time::sleep(TTL / 4).await;
            let began = Instant::now();
            let released = guard.release().await;
            let next = waits.await.expect("no panic");
            (began.elapsed(), released.and(next.map(drop)))
        });
        let (took, ended): (Duration, Result<(), LockError>) = took;
        let bound = TURN + excuse.so_far();
        sheet.check(ended.is_ok() && took < bound, || {
            format!("{scene}: the next process came in after {took:?}: {ended:?}")
        });
    }
}
