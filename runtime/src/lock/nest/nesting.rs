//! The call path: the locks around the running code.
//!
//! The path follows the future, not the thread. The code that polls a body, the gate, puts the
//! call's locks on the path before each poll, and takes them off afterwards. So the path is correct
//! across awaits, in `join!` and `select!`, and through boxes and trait objects. A task that the
//! body spawns is polled outside of the gate, so it is not inside these locks. A blocking body can
//! also poll other tasks on its thread, for example in a `block_on`. These are not inside the locks
//! either, so the path records the task of each body.

use std::cell::RefCell;
use std::future::Future;

use tokio::task;

use super::call_site::At;
use super::leases::{LeaseRef, Lock, Locks};
use crate::base::full_key::FullKey;
use crate::base::seeded::seeded;
use crate::error::LockError;
use crate::pool::PoolId;

thread_local! {
    /// The locks around the running code, outermost first, each with the tokio task that polls its
    /// body. The task is none if no tokio task polls the body.
    static PATH: RefCell<Vec<(Option<task::Id>, Locks)>> = const { RefCell::new(Vec::new()) };
}

tokio::task_local! {
    /// The path of the code that spawned this task. `is_held` uses it, and so does the check for a
    /// task that waits for a lock of its spawner. Nested calls do not use it, because the task can
    /// outlive these locks.
    static SPAWNED_ON: Vec<Locks>;
}

/// Calls `poll` with `locks` on the call path.
pub(crate) fn inside<T>(locks: &Locks, poll: impl FnOnce() -> T) -> T {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            if !seeded!(PathLeaks) {
                let _ = PATH.try_with(|path| path.borrow_mut().pop());
            }
        }
    }
    // `try_with` fails only while the thread ends, after its path was dropped. Code that such a
    // thread still polls counts as outside all locks.
    let entered = PATH.try_with(|path| path.borrow_mut().push((task::try_id(), locks.clone())));
    let _leave = entered.is_ok().then_some(Leave);
    poll()
}

/// Position of the running code relative to the lock of a key.
pub(crate) enum Standing {
    /// No call on the path holds the key.
    Outside,
    /// A call on the path holds the key. Contains the lease of the innermost such call.
    Inside(Box<LeaseRef>),
    /// A call on the path held the key, and its lease is over.
    Lost(LockError),
}

/// Looks up the key on the path of the running code.
pub(crate) fn standing(pool: PoolId, key: &FullKey) -> Standing {
    on_path(|path| look(path, pool, key)).unwrap_or(Standing::Outside)
}

/// Passes the locks around the running code to `read`. Returns none if the thread is ending.
fn on_path<T>(read: impl FnOnce(&[&Locks]) -> T) -> Option<T> {
    let mine = |path: &[(Option<task::Id>, Locks)]| {
        if path.is_empty() {
            return read(&[]);
        }
        let task = task::try_id();
        let own = path
            .iter()
            .filter(|(of, _)| *of == task || seeded!(PathOfThread));
        read(&own.map(|(_, locks)| locks).collect::<Vec<_>>())
    };
    PATH.try_with(|path| mine(&path.borrow())).ok()
}

/// Records, for each of `keys` that the spawner of the running task holds, that the call at `at`
/// waits for it. If the spawner's body awaits the task, the body waits for its own lock. If the
/// body's lease is then lost, the log event `own-lock` shows `at`.
pub(crate) fn waits_in_task<'a>(pool: PoolId, keys: impl Iterator<Item = &'a FullKey>, at: At) {
    // `try_with` fails outside of tasks that leasehold has spawned. For other tasks, the locks of
    // the spawner are not known.
    let _ = SPAWNED_ON.try_with(|path| {
        for key in keys {
            let leases = path.iter().flat_map(Locks::iter).filter_map(Lock::lease);
            let held = leases.filter(|lease| lease.is_of(pool, key) && lease.cell.is_live());
            held.for_each(|lease| lease.awaited_in_task(at));
        }
    });
}

fn look(path: &[&Locks], pool: PoolId, key: &FullKey) -> Standing {
    let same = |lease: &&LeaseRef| lease.is_of(pool, key);
    let inwards = path.iter().rev().flat_map(|locks| locks.iter());
    let mut lost = None;
    for lease in inwards.filter_map(Lock::lease).filter(same) {
        match lease.cell.check() {
            Ok(()) => return Standing::Inside(Box::new(lease.view())),
            Err(error) => lost = lost.or(Some(error)),
        }
    }
    lost.map_or(Standing::Outside, Standing::Lost)
}

/// Position of the running code relative to the locks with a given name.
pub(crate) enum Inside {
    /// Inside a lock of this name, and the lease lasts.
    Held,
    /// Inside a lock of this name, but the lease is over.
    Lost,
    /// Outside of the locks of this name. Contains the names of the held locks around the code.
    Outside(Vec<String>),
}

/// Returns the position of the running code relative to the locks of all pools whose key, without
/// its namespace, is `name`.
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

/// True if the running code is inside the lock `key` of this pool, and its lease lasts.
pub(crate) fn is_inside(pool: PoolId, key: &FullKey) -> bool {
    any_lock(|lock| {
        let lease = lock.lease();
        lease.is_some_and(|lease| lease.is_of(pool, key)) && lock.is_live()
    })
}

/// True if `meant` returns true for a lock that encloses the running code. Calls `meant` for the
/// outermost lock first, in a spawned task for the outermost one of its spawner.
fn any_lock(mut meant: impl FnMut(&Lock) -> bool) -> bool {
    SPAWNED_ON
        .try_with(|path| path.iter().flat_map(Locks::iter).any(&mut meant))
        .unwrap_or(false)
        || on_path(|path| path.iter().flat_map(|locks| locks.iter()).any(&mut meant))
            .unwrap_or(false)
}

/// Wraps the future of a task, so that the task keeps the path of the running code for `is_held`.
pub(crate) fn spawned_here<F: Future>(future: F) -> impl Future<Output = F::Output> {
    let mut path = SPAWNED_ON.try_with(Vec::clone).unwrap_or_default();
    on_path(|here| path.extend(here.iter().copied().cloned()));
    // Otherwise a chain of tasks, each spawned by the one before, would collect the locks of all.
    path.retain(|locks| locks.iter().any(Lock::is_live));
    SPAWNED_ON.scope(path, future)
}
