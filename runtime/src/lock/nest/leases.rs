//! The keys of one call, and the call's lease on each.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::Semaphore;

use super::call_site::At;
use crate::base::codes;
use crate::base::full_key::FullKey;
use crate::base::reporter;
use crate::base::seeded::seeded;
use crate::engine::lease_cell::LeaseCell;
use crate::error::LockError;
use crate::fence::Fence;
use crate::key;
use crate::pool::PoolId;

/// Maximum number of keys of one call. The attribute has the same limit.
const MAX_KEYS: usize = 16;

/// The keys of one call, at least one: sorted and without repeats. Clones share the leases.
#[derive(Clone)]
pub(crate) struct Locks(Arc<[Lock]>);

/// One key of a call.
pub(crate) struct Lock {
    name: String,
    /// The call's lease on the key. A call that takes a single lock itself sets the lease with its
    /// request. A call that takes several locks, or enters that of an enclosing call, sets it when
    /// it has all its locks.
    lease: OnceLock<LeaseRef>,
}

/// A call's lease on one key. If the call has entered the lock of an enclosing call, this refers to
/// the enclosing call's lease.
#[derive(Clone)]
pub(crate) struct LeaseRef {
    pub(crate) pool: PoolId,
    pub(crate) cell: Arc<LeaseCell>,
    /// The source location where the lock was taken.
    pub(crate) at: At,
    /// True if the call requested a share of the lock.
    pub(crate) shared: bool,
    permit: OnceLock<Arc<Semaphore>>,
    /// Source location of a call that waited for this lock in a task spawned by the holder's body.
    /// The first error that reports the loss of the lease removes the location from here and logs
    /// it.
    own_task: OnceLock<Arc<Mutex<Option<At>>>>,
}

impl Locks {
    pub(crate) fn one(name: String) -> Self {
        Self(Arc::new([Lock::new(name)]))
    }

    /// Sorts the names and drops repeats. Two calls that share keys then request them in the same
    /// order, and cannot deadlock.
    pub(crate) fn all(mut names: Vec<String>) -> Result<Self, LockError> {
        names.sort_unstable();
        names.dedup();
        if !(1..=MAX_KEYS).contains(&names.len()) {
            return Err(LockError::config(format!(
                "one call locks from 1 to {MAX_KEYS} keys, but this one names {}; lock one key \
                 that stands for all of them",
                names.len()
            )));
        }
        Ok(Self(names.into_iter().map(Lock::new).collect()))
    }

    /// Like [`all`](Self::all), but checks each key first.
    pub(crate) fn checked(names: Vec<String>) -> Result<Self, LockError> {
        let names = names.into_iter().map(key::check);
        Self::all(names.collect::<Result<_, _>>()?)
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Lock> {
        self.0.iter()
    }

    /// Sets the leases, which makes them visible to guards and handles. A call with several keys
    /// calls this when it has all its locks.
    pub(crate) fn fill(&self, leases: impl IntoIterator<Item = LeaseRef>) {
        for (lock, lease) in self.iter().zip(leases) {
            // A call takes its locks only once, so `set` cannot fail.
            let _ = lock.lease.set(lease);
        }
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.iter().map(|lock| lock.name.as_str())
    }

    pub(crate) fn first_name(&self) -> &str {
        &self.0[0].name
    }

    /// Returns the keys at the store, with their namespace. Empty until the leases are set.
    pub(crate) fn full_keys(&self) -> impl Iterator<Item = &str> {
        let leases = self.iter().filter_map(Lock::lease);
        leases.map(|lease| &**lease.cell.key())
    }

    /// Returns the fence of a call with one key. None for several keys.
    pub(crate) fn fence(&self) -> Option<Fence> {
        match &*self.0 {
            [only] => only.fence(),
            _ => None,
        }
    }

    /// Like [`fence`](Self::fence), but for spans. The fence does not count as read by the program.
    /// After a read, the program may have passed the fence to a database transaction, which can
    /// hold the lock beyond the release.
    pub(crate) fn peek_fence(&self) -> Option<Fence> {
        match &*self.0 {
            [only] => only.peek_fence(),
            _ => None,
        }
    }

    /// Like [`fences`](Self::fences), but for debug output. The fences do not count as read by the
    /// program.
    pub(crate) fn peek_fences(&self) -> impl Iterator<Item = (&str, Option<Fence>)> {
        let all = self.iter();
        all.map(|lock| (lock.name.as_str(), lock.peek_fence()))
    }

    pub(crate) fn fences(&self) -> impl Iterator<Item = (&str, Option<Fence>)> {
        self.iter().map(|lock| (lock.name.as_str(), lock.fence()))
    }

    /// Returns the remaining time of the lease that ends first.
    pub(crate) fn remaining(&self) -> Duration {
        let remaining = self.iter().map(Lock::remaining);
        if seeded!(LatestEndReported) {
            return remaining.max().unwrap_or_default();
        }
        remaining.min().unwrap_or_default()
    }

    /// Returns the end of the lease that ends first, or zero if one of the locks is not held. The
    /// tests' oracle uses this to find overlapping holders.
    #[cfg(feature = "__test")]
    pub(crate) fn deadline(&self) -> crate::base::clock::Instant {
        self.first(LeaseCell::deadline)
    }

    /// Like `deadline`, but returns the last confirmed end even after the lease is over.
    #[cfg(feature = "__test")]
    pub(crate) fn confirmed(&self) -> crate::base::clock::Instant {
        self.first(LeaseCell::confirmed)
    }

    /// Like `confirmed`, for one of the keys.
    #[cfg(feature = "__test")]
    pub(crate) fn confirmed_of(&self, name: &str) -> crate::base::clock::Instant {
        let lock = self.iter().find(|lock| lock.name == name);
        let lease = lock.and_then(Lock::lease);
        lease.map_or(crate::base::clock::Instant::ZERO, |lease| {
            lease.cell.confirmed()
        })
    }

    #[cfg(feature = "__test")]
    fn first(
        &self,
        end: fn(&LeaseCell) -> crate::base::clock::Instant,
    ) -> crate::base::clock::Instant {
        let ends = self.iter().map(|lock| {
            let lease = lock.lease();
            lease.map_or(crate::base::clock::Instant::ZERO, |lease| end(&lease.cell))
        });
        ends.min().unwrap_or(crate::base::clock::Instant::ZERO)
    }

    /// True if one of the leases is a share, or has become one.
    pub(crate) fn are_shared(&self) -> bool {
        let shared = |lease: &LeaseRef| lease.shared || lease.cell.is_shared();
        self.iter().filter_map(Lock::lease).any(shared)
    }

    /// True if the holder was notified that `force_release` has taken one of the locks away.
    pub(crate) fn are_taken_away(&self) -> bool {
        let mut leases = self.iter().filter_map(Lock::lease);
        leases.any(|lease| lease.cell.is_taken_away())
    }

    pub(crate) fn is_live(&self) -> bool {
        if seeded!(AnyKeyIsEnough) {
            return self.iter().any(Lock::is_live);
        }
        self.iter().all(Lock::is_live)
    }

    pub(crate) fn check(&self) -> Result<(), LockError> {
        match self.iter().find(|lock| !lock.is_live()) {
            None => Ok(()),
            Some(lost) => Err(lost.lost_error()),
        }
    }

    /// Returns the error for the first lost lease, in the order of the keys.
    pub(crate) fn lost_error(&self) -> LockError {
        let lost = self.iter().find(|lock| !lock.is_live());
        lost.unwrap_or(&self.0[0]).lost_error()
    }

    /// Completes when one of the leases is over. Completes immediately if the call does not have
    /// all its locks.
    pub(crate) async fn over(&self) {
        let leases: Option<Vec<&LeaseRef>> = self.iter().map(Lock::lease).collect();
        match leases.as_deref() {
            None => {}
            Some([lease]) => lease.cell.over().await,
            Some(leases) => any_over(leases.iter().map(|lease| &lease.cell)).await,
        }
    }
}

/// Completes when the lease of one of `cells` is over.
pub(crate) async fn any_over(cells: impl Iterator<Item = &Arc<LeaseCell>>) {
    type Over<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;
    let mut all: Vec<Over<'_>> = cells
        .map(|cell| Box::pin(cell.over()) as Over<'_>)
        .collect();
    poll_fn(|cx| {
        let over = all.iter_mut().any(|over| over.as_mut().poll(cx).is_ready());
        if over { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

impl Lock {
    fn new(name: String) -> Self {
        Self {
            name,
            lease: OnceLock::new(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn lease(&self) -> Option<&LeaseRef> {
        self.lease.get()
    }

    fn fence(&self) -> Option<Fence> {
        self.lease().and_then(|lease| lease.cell.fence())
    }

    fn peek_fence(&self) -> Option<Fence> {
        self.lease().and_then(|lease| lease.cell.peek_fence())
    }

    fn remaining(&self) -> Duration {
        self.lease()
            .map_or(Duration::ZERO, |lease| lease.cell.remaining())
    }

    pub(crate) fn is_live(&self) -> bool {
        self.lease().is_some_and(|lease| lease.cell.is_live())
    }

    fn lost_error(&self) -> LockError {
        if let Some(at) = self.lease().and_then(LeaseRef::take_own_task) {
            let key = self.name.clone();
            reporter::log(move || {
                tracing::warn!(
                    code = codes::OWN_LOCK,
                    key,
                    %at,
                    "a task spawned by the body of a lost lease waited for the same lock, so the \
                     body may have waited for its own lock; make that call in the body, with \
                     `reentrant`"
                );
            });
        }
        LockError::lost(&*self.name, self.fence())
    }
}

impl LeaseRef {
    pub(crate) fn new(pool: PoolId, cell: Arc<LeaseCell>, at: At, shared: bool) -> Self {
        Self {
            pool,
            cell,
            at,
            shared,
            permit: OnceLock::new(),
            own_task: OnceLock::new(),
        }
    }

    pub(crate) fn is_of(&self, pool: PoolId, key: &FullKey) -> bool {
        self.pool == pool && self.cell.key() == key
    }

    /// Returns the error of a nested call that would wait for this lock, which its enclosing call
    /// holds. The enclosing call waits for the nested call, so neither could continue.
    pub(crate) fn would_deadlock(&self, key: &str) -> LockError {
        LockError::WouldDeadlock {
            key: key.to_owned(),
            held_at: self.at.to_string(),
        }
    }

    /// Records that a call at `at` waits for this lock in a task spawned by the holder's body.
    pub(crate) fn awaited_in_task(&self, at: At) {
        let _ = self.own_task.set(Arc::new(Mutex::new(Some(at))));
    }

    fn take_own_task(&self) -> Option<At> {
        let task = self.own_task.get()?.lock();
        task.unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Returns a clone for a call nested directly in the call with this lease. Only one such call
    /// runs at a time, so all clones share one permit.
    pub(crate) fn view(&self) -> Self {
        // Creates the semaphore now, so that all clones share it.
        let _ = self.permit();
        self.clone()
    }

    /// Returns this lease for a nested call that enters the lock. The calls nested in that call
    /// share a separate permit.
    pub(crate) fn entered(&self) -> Self {
        Self::new(self.pool, Arc::clone(&self.cell), self.at, self.shared)
    }

    /// Returns the permit for the calls nested directly in the call with this lease. There is only
    /// one permit, so these calls run one at a time.
    pub(crate) fn permit(&self) -> Arc<Semaphore> {
        if seeded!(TurnsIgnored) {
            return Arc::new(Semaphore::new(1));
        }
        let permit = self.permit.get_or_init(|| Arc::new(Semaphore::new(1)));
        Arc::clone(permit)
    }
}

impl fmt::Debug for Locks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}
