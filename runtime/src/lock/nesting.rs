//! The call path: the locks that the code that runs now is inside of.
//!
//! It follows the future and not the thread: a gate puts its locks on the path for as long as it polls its body, and takes
//! them off again. So it holds across awaits, in `join!` and `select!`, through boxes and trait objects; and a task that the body
//! spawns, which others poll, is not on it.

use std::cell::RefCell;

use super::leases::{LeaseRef, Lock, Locks};
use crate::base::full_key::FullKey;
use crate::base::seeded::seeded;
use crate::error::LockError;
use crate::pool::PoolId;

thread_local! {
    /// Outermost first.
    static PATH: RefCell<Vec<Locks>> = const { RefCell::new(Vec::new()) };
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
    // A thread that is being torn down has no path any more; what it still polls is on none.
    let entered = PATH.try_with(|path| path.borrow_mut().push(locks.clone()));
    let _leave = entered.is_ok().then_some(Leave);
    poll()
}

/// What the path says about a key.
pub(crate) enum Standing {
    /// The path does not hold it.
    Outside,
    /// The innermost call on the path that holds it has this lease.
    Inside(Box<LeaseRef>),
    /// A call on the path held it, and its lease is over.
    Lost(LockError),
}

/// Where the code that runs now stands with a key.
pub(crate) fn standing(pool: PoolId, key: &FullKey) -> Standing {
    let found = PATH.try_with(|path| look(&path.borrow(), pool, key));
    found.unwrap_or(Standing::Outside)
}

fn look(path: &[Locks], pool: PoolId, key: &FullKey) -> Standing {
    let same = |lease: &&LeaseRef| lease.pool == pool && lease.cell.key() == key;
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
