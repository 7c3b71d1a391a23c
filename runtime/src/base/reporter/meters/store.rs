//! What is told of each store: whether it can be reached, and how long its answers take.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::times::Times;
use super::{counted, guarded};

/// What a request asks of a store. One kind stands for what a whole lock and a share are asked, and
/// for what concerns a result that is kept.
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

/// The meters of all stores that a pool is connected to, and of those whose end is not told yet.
/// Locked only when a pool connects, and by the reporter thread.
static STORES: Mutex<Vec<Arc<StoreMeter>>> = Mutex::new(Vec::new());

/// What is counted of one store, by all pools that are connected to it.
pub(crate) struct StoreMeter {
    /// The store's URL without its password.
    store: String,
    /// How many pools cannot reach the store.
    away: AtomicU32,
    /// Whether the recorder was not told yet of the last change.
    changed: AtomicBool,
    requests: [Times; Kind::ALL.len()],
}

impl StoreMeter {
    /// The meter of the store with this name.
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

    /// A request was answered after this time.
    pub(crate) fn answered(&self, kind: Kind, after: Duration) {
        self.requests[kind as usize].add(after);
        counted();
    }

    /// A pool cannot reach the store any more, or can reach it again, or is gone.
    pub(crate) fn is_away(&self, away: bool) {
        if away {
            self.away.fetch_add(1, Ordering::SeqCst);
        } else {
            self.away.fetch_sub(1, Ordering::SeqCst);
        }
        self.changed.store(true, Ordering::SeqCst);
        counted();
    }

    /// Hands on what has been counted. Returns whether there was anything.
    fn tell(&self) -> bool {
        let mut found = self.changed.swap(false, Ordering::SeqCst);
        if found {
            self.tell_up();
        }
        for (kind, times) in Kind::ALL.into_iter().zip(&self.requests) {
            found |= times.tell(|| {
                metrics::histogram!("leasehold_store_request_seconds", "store" => self.store.clone(), "op" => kind.name())
            });
        }
        found
    }

    /// Tells whether every pool of this process can reach the store.
    fn tell_up(&self) {
        let up = self.away.load(Ordering::SeqCst) == 0;
        guarded(|| {
            let store = self.store.clone();
            metrics::gauge!("leasehold_store_up", "store" => store).set(u8::from(up));
        });
    }
}

/// Hands on what has been counted of all stores. Returns whether there was anything.
pub(super) fn tell() -> bool {
    // Copied first: a recorder may block.
    let all = stores().clone();
    let found = all.iter().filter(|store| store.tell()).count();
    drop(all);
    let untold = |store: &StoreMeter| store.changed.load(Ordering::SeqCst);
    stores().retain(|store| is_in_use(store) || untold(store));
    0 < found
}

/// Tells which stores can be reached, whether or not that has changed.
pub(super) fn tell_again() {
    let all = stores().clone();
    for store in all {
        store.tell_up();
    }
}

/// Whether a pool is connected to any store.
pub(super) fn are_in_use() -> bool {
    stores().iter().any(is_in_use)
}

/// Whether the meter has an owner beside the list: a pool.
fn is_in_use(store: &Arc<StoreMeter>) -> bool {
    1 < Arc::strong_count(store)
}

fn stores() -> MutexGuard<'static, Vec<Arc<StoreMeter>>> {
    STORES.lock().unwrap_or_else(PoisonError::into_inner)
}
