//! The call path: the locks that the running code is inside of.
//!
//! The path follows the future, not the thread. A gate puts its locks on the path while it polls
//! its body, and then takes them off again. So the path holds across awaits, in `join!` and
//! `select!`, and through boxes and trait objects. A task that the body spawns is polled outside of
//! the gate, and is not on the path.

use std::cell::RefCell;
use std::future::Future;

use super::call_site::At;
use super::leases::{LeaseRef, Lock, Locks};
use crate::base::full_key::FullKey;
use crate::base::seeded::seeded;
use crate::error::LockError;
use crate::pool::PoolId;

thread_local! {
    /// Outermost first.
    static PATH: RefCell<Vec<Locks>> = const { RefCell::new(Vec::new()) };
}

tokio::task_local! {
    /// The path of the code that spawned this task. The task is on it for questions whether a lock
    /// is held, and not as a nested call: it can outlive these locks.
    static SPAWNED_ON: Vec<Locks>;
}

/// Runs `poll` inside of `locks`.
pub(crate) fn inside<T>(locks: &Locks, poll: impl FnOnce() -> T) -> T {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            if !seeded!(PathLeaks) {
                let _ = PATH.try_with(|path| path.borrow_mut().pop());
            }
        }
    }
    // A thread that is being torn down has no path any more. Code that it still polls is inside no
    // lock.
    let entered = PATH.try_with(|path| path.borrow_mut().push(locks.clone()));
    let _leave = entered.is_ok().then_some(Leave);
    poll()
}

/// Where the running code stands with a key.
pub(crate) enum Standing {
    /// No call on the path holds the key.
    Outside,
    /// The lease of the innermost call on the path that holds the key.
    Inside(Box<LeaseRef>),
    /// A call on the path held the key, and its lease is over.
    Lost(LockError),
}

/// Looks the key up on the path of the running code.
pub(crate) fn standing(pool: PoolId, key: &FullKey) -> Standing {
    let found = PATH.try_with(|path| look(&path.borrow(), pool, key));
    found.unwrap_or(Standing::Outside)
}

/// Records that the running code waits at `at` for keys that the spawner of its task holds. The
/// spawner's body may await the task, and then waits for its own lock.
pub(crate) fn waits_in_task<'a>(pool: PoolId, keys: impl Iterator<Item = &'a FullKey>, at: At) {
    // Outside of a task by `leasehold::spawn` there is no such path.
    let _ = SPAWNED_ON.try_with(|path| {
        for key in keys {
            let leases = path.iter().flat_map(Locks::iter).filter_map(Lock::lease);
            let held = leases.filter(|lease| lease.is_of(pool, key) && lease.cell.is_live());
            held.for_each(|lease| lease.awaited_in_task(at));
        }
    });
}

fn look(path: &[Locks], pool: PoolId, key: &FullKey) -> Standing {
    let same = |lease: &&LeaseRef| lease.is_of(pool, key);
    let inwards = path.iter().rev().flat_map(Locks::iter);
    let mut lost = None;
    for lease in inwards.filter_map(Lock::lease).filter(same) {
        match lease.cell.check() {
            Ok(()) => return Standing::Inside(Box::new(lease.view())),
            Err(error) => lost = lost.or(Some(error)),
        }
    }
    lost.map_or(Standing::Outside, Standing::Lost)
}

/// Whether the running code is inside of a lock.
pub(crate) enum Inside {
    /// It is, and the lease lasts.
    Held,
    /// It is, and the lease is over.
    Lost,
    /// It is not; it is inside of these.
    Outside(Vec<String>),
}

/// Whether the running code is inside of the lock that callers call `name`, in whichever pool.
pub(crate) fn inside_of(name: &str) -> Inside {
    let (mut known, mut others) = (false, Vec::new());
    let held = any_lock(|lock| {
        if lock.name() != name {
            others.extend(lock.is_live().then(|| lock.name().to_owned()));
            return false;
        }
        known = true;
        lock.is_live()
    });
    match (held, known) {
        (true, _) => Inside::Held,
        (false, true) => Inside::Lost,
        (false, false) => Inside::Outside(others),
    }
}

/// Whether the running code is inside of this lock, and its lease lasts.
pub(crate) fn is_inside(pool: PoolId, key: &FullKey) -> bool {
    any_lock(|lock| {
        let lease = lock.lease();
        lease.is_some_and(|lease| lease.is_of(pool, key)) && lock.is_live()
    })
}

/// Whether one of the locks is meant that the running code is inside of, from outside inwards.
fn any_lock(mut meant: impl FnMut(&Lock) -> bool) -> bool {
    let mut in_path = |path: &[Locks]| path.iter().flat_map(Locks::iter).any(&mut meant);
    SPAWNED_ON.try_with(|path| in_path(path)).unwrap_or(false)
        || PATH
            .try_with(|path| in_path(&path.borrow()))
            .unwrap_or(false)
}

/// The future of a task, with the locks that the running code is inside of.
pub(crate) fn spawned_here<F: Future>(future: F) -> impl Future<Output = F::Output> {
    let mut path = SPAWNED_ON.try_with(Vec::clone).unwrap_or_default();
    let _ = PATH.try_with(|here| path.extend(here.borrow().iter().cloned()));
    SPAWNED_ON.scope(path, future)
}
