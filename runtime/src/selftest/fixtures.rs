//! Fixtures shared by several tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};
use std::time::Duration;

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Returns a waker, and a function that returns how often this waker was woken.
pub(crate) fn counting() -> (Waker, impl Fn() -> usize) {
    let count = Arc::new(Count::default());
    let waker = Waker::from(Arc::clone(&count));
    (waker, move || count.0.load(Ordering::SeqCst))
}

/// A time longer than any test.
pub(crate) const LONG: Duration = Duration::from_secs(60);
