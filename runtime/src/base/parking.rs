//! Runs a future on the current thread, which is parked between the polls.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// Polls `future` on this thread until it is ready.
pub(crate) fn polled<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let alarm = Arc::new(Alarm::default());
    let waker = Waker::from(Arc::clone(&alarm));
    let mut cx = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
            return output;
        }
        alarm.wait();
    }
}

/// A waker for the parked thread. It does not use `thread::park`, because the program may use the
/// thread's park token.
#[derive(Default)]
struct Alarm {
    rings: Mutex<bool>,
    rung: Condvar,
}

impl Alarm {
    fn wait(&self) {
        let rings = self.rings.lock().unwrap_or_else(PoisonError::into_inner);
        let rings = self.rung.wait_while(rings, |rings| !*rings);
        *rings.unwrap_or_else(PoisonError::into_inner) = false;
    }
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        *self.rings.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.rung.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails if a wake-up is lost because it comes before the thread is parked.
    #[test]
    fn an_early_wake_up_counts() {
        let mut polls = 0;
        let early = std::future::poll_fn(|cx| {
            polls += 1;
            cx.waker().wake_by_ref();
            if polls < 3 {
                Poll::Pending
            } else {
                Poll::Ready(())
            }
        });
        polled(early);
        assert_eq!(polls, 3);
    }
}
