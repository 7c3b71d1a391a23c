//! The meters of each store: its reachability, and the times that it takes to answer.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::times::Times;
use super::{counted, guarded};

/// Kind under which the metrics count a request to a store. Shares count like exclusive locks,
/// adoptions and recalls as `Acquire`, removals of kept results as `Release`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Acquire,
    Renew,
    Release,
    Leave,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Acquire, Self::Renew, Self::Release, Self::Leave];

    fn name(self) -> &'static str {
        match self {
            Self::Acquire => "acquire",
            Self::Renew => "renew",
            Self::Release => "release",
            Self::Leave => "leave",
        }
    }
}

/// The meters of all stores to which a pool is connected, and of stores whose last change of
/// reachability is not reported yet. Locked only when a pool connects, and by the reporter thread.
static STORES: Mutex<Vec<Arc<StoreMeter>>> = Mutex::new(Vec::new());

/// The meters of one store, shared by all pools that are connected to it.
pub(crate) struct StoreMeter {
    /// The store's URL without its password.
    store: String,
    /// Number of pools that cannot reach the store.
    away: AtomicU32,
    /// True if a change of `away` is not reported to the recorder yet.
    changed: AtomicBool,
    requests: [Times; Kind::ALL.len()],
}

impl StoreMeter {
    /// Returns the meter of the store with this URL. Adds the meter if it does not exist.
    pub(crate) fn of(store: &str) -> Arc<Self> {
        let meter = Self::find(store);
        counted();
        meter
    }

    fn find(store: &str) -> Arc<Self> {
        let mut stores = stores();
        if let Some(meter) = stores.iter().find(|meter| meter.store == store) {
            return Arc::clone(meter);
        }
        let meter = Arc::new(Self {
            store: store.to_owned(),
            away: AtomicU32::new(0),
            changed: AtomicBool::new(true),
            requests: [const { Times::new() }; Kind::ALL.len()],
        });
        stores.push(Arc::clone(&meter));
        meter
    }

    /// Records that a request was answered, and the time that this took.
    pub(crate) fn answered(&self, kind: Kind, after: Duration) {
        self.requests[kind as usize].add(after);
        counted();
    }

    /// Changes the number of pools that cannot reach the store. If `away` is true, counts one pool
    /// more. Otherwise counts one pool less, which can reach the store again or is dropped.
    pub(crate) fn is_away(&self, away: bool) {
        if away {
            self.away.fetch_add(1, Ordering::SeqCst);
        } else {
            self.away.fetch_sub(1, Ordering::SeqCst);
        }
        self.changed.store(true, Ordering::SeqCst);
        counted();
    }

    /// Passes on the reachability of the store, if it has changed, and the new answer times.
    /// Returns true if there was anything to pass on.
    fn publish(&self) -> bool {
        let mut found = self.changed.swap(false, Ordering::SeqCst);
        if found {
            self.publish_up();
        }
        for (kind, times) in Kind::ALL.into_iter().zip(&self.requests) {
            found |= times.publish(|| {
                metrics::histogram!("leasehold_store_request_seconds", "store" => self.store.clone(), "op" => kind.name())
            });
        }
        found
    }

    /// Reports 1 if every pool of this process can reach the store, otherwise 0.
    fn publish_up(&self) {
        let up = self.away.load(Ordering::SeqCst) == 0;
        guarded(|| {
            let store = self.store.clone();
            metrics::gauge!("leasehold_store_up", "store" => store).set(u8::from(up));
        });
    }
}

/// Passes on the new values of all stores, and removes the meters of stores without a pool. Returns
/// true if there were new values.
pub(super) fn publish() -> bool {
    // Copies the list, so that it is not locked while a recorder blocks.
    let all = stores().clone();
    let found = all.iter().filter(|store| store.publish()).count();
    drop(all);
    let unpublished = |store: &StoreMeter| store.changed.load(Ordering::SeqCst);
    stores().retain(|store| is_in_use(store) || unpublished(store));
    0 < found
}

/// Reports the reachability of each store, even if it has not changed.
pub(super) fn publish_again() {
    let all = stores().clone();
    for store in all {
        store.publish_up();
    }
}

/// True if a pool is connected to any store.
pub(super) fn are_in_use() -> bool {
    stores().iter().any(is_in_use)
}

/// True if a pool uses the meter. An unused meter is referenced only by the list of stores.
fn is_in_use(store: &Arc<StoreMeter>) -> bool {
    1 < Arc::strong_count(store)
}

fn stores() -> MutexGuard<'static, Vec<Arc<StoreMeter>>> {
    STORES.lock().unwrap_or_else(PoisonError::into_inner)
}
