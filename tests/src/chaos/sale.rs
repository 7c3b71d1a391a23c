//! The sale of an item by a holder of the shop's lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold::__test::deadline;
use leasehold::{Fence, LockHandle};

use super::errand::Desk;
use super::shop::Shop;
use crate::oracle::Note;

const STEP: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(super) struct Sale {
    pub(super) desk: Arc<Desk>,
    pub(super) key: String,
    pub(super) holder: u64,
    pub(super) lock: LockHandle,
    /// The latest confirmed end of the lease, as a timestamp of `leasehold::__test::now`.
    pub(super) deadline: Arc<AtomicU64>,
}

impl Sale {
    /// Sells one item, and spawns a task that tries to sell again after the end of the lease.
    pub(super) async fn sell(self: Arc<Self>) {
        let seen = self.shop().read(&self.key, self.fence()).await;
        if let Some(seen) = seen {
            self.write(seen).await;
        }
        tokio::spawn(Arc::clone(&self).sell_too_late(seen.unwrap_or(0)));
    }

    /// Waits until the lease is over and a newer holder has used the table, and then writes. The
    /// body spawns this as a task, which outlives the body, so no lock can prevent the write. A
    /// table that compares fences refuses it.
    async fn sell_too_late(self: Arc<Self>, seen: u64) {
        self.lock.lost().await;
        while self.shop().newest(&self.key).await <= self.fence() {
            // The task polls the table, because the newer holder is in another process and does not
            // notify this process.
            tokio::time::sleep(STEP).await;
        }
        self.write(seen).await;
    }

    async fn write(&self, seen: u64) {
        let written = self.shop().write(&self.key, self.fence(), seen).await;
        let known = deadline(&self.lock);
        let known = self.deadline.fetch_max(known, Ordering::Relaxed).max(known);
        self.desk.history.note(&Note::Write {
            key: self.key.clone(),
            holder: self.holder,
            fence: self.lock.fence().map(u64::from),
            seen,
            newest: written.newest,
            at: written.at,
            deadline: known,
            kept: written.kept,
        });
    }

    fn fence(&self) -> i64 {
        self.lock.fence().map_or(0, Fence::as_i64)
    }

    fn shop(&self) -> &Shop {
        self.desk
            .shop
            .as_ref()
            .expect("a job that sells has a shop")
    }
}
