//! Limits the number of CPU-heavy tests that run at the same time. A test that measures times runs
//! while no other CPU-heavy test runs.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::available_parallelism;

static TAKEN: Mutex<usize> = Mutex::new(0);
static FREED: Condvar = Condvar::new();

/// The places that a running test occupies. A test starts only when enough places are free.
/// Dropping this value frees the places.
#[derive(Debug)]
#[must_use]
pub struct Places(usize);

/// Takes one place. Waits until one is free.
pub fn enter() -> Places {
    take(1)
}

/// Waits until all places are free, and takes them. No other test that needs a place can then run.
pub fn alone() -> Places {
    take(all())
}

/// Returns the number of places: three for each processor, because the tests also spend time
/// waiting.
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
