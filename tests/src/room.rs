//! Room for tests that need processors and not only time: so many stand side by side, and one that
//! measures stands alone.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::available_parallelism;

static TAKEN: Mutex<usize> = Mutex::new(0);
static FREED: Condvar = Condvar::new();

/// Places that a test has until this is dropped.
#[derive(Debug)]
#[must_use]
pub struct Places(usize);

/// One place. Waits until one is free.
pub fn enter() -> Places {
    take(1)
}

/// All places: no other test that asks for room runs meanwhile.
pub fn alone() -> Places {
    take(all())
}

/// Three for each processor: such a test waits as well.
fn all() -> usize {
    3 * available_parallelism().map_or(2, usize::from)
}

fn taken() -> MutexGuard<'static, usize> {
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn take(places: usize) -> Places {
    let fits = |taken: &mut usize| all() < *taken + places;
    let waited = FREED.wait_while(taken(), fits);
    *waited.unwrap_or_else(PoisonError::into_inner) += places;
    Places(places)
}

impl Drop for Places {
    fn drop(&mut self) {
        *taken() -= self.0;
        FREED.notify_all();
    }
}
