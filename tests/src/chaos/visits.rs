//! The bodies of requirement 37, and what they note: which of them is in a lock, and what the tasks
//! see that they have left behind.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use leasehold::LockHandle;

/// A lock, as its bodies see it.
#[derive(Debug, Default)]
struct Seat {
    /// The body that is alone in the lock.
    alone: Option<u64>,
    readers: u64,
    /// The last body that began, alone or not.
    last: u64,
}

/// All bodies of a run.
#[derive(Debug, Default)]
pub(super) struct Visits {
    seats: Vec<Mutex<Seat>>,
    begun: AtomicU64,
    /// How often a task that outlived its call found that call's lock gone.
    outlived: AtomicU64,
    violations: Mutex<Vec<String>>,
}

/// Where a body is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spot {
    pub(super) seat: usize,
    pub(super) shared: bool,
}

impl Visits {
    pub(super) fn of(seats: usize) -> Arc<Self> {
        Arc::new(Self {
            seats: (0..seats).map(|_| Mutex::default()).collect(),
            ..Self::default()
        })
    }

    pub(super) fn begun(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }

    pub(super) fn outlived(&self) -> u64 {
        self.outlived.load(Ordering::Relaxed)
    }

    /// Takes out what went wrong.
    pub(super) fn violations(&self) -> Vec<String> {
        let mut violations = self
            .violations
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *violations)
    }

    fn seat(&self, seat: usize) -> MutexGuard<'_, Seat> {
        self.seats[seat]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn violation(&self, text: String) {
        let mut violations = self
            .violations
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        violations.push(text);
    }

    /// The body of a call. A task that it spawns goes on when the call is gone.
    pub(super) async fn body(self: &Arc<Self>, lock: &LockHandle, spots: &[Spot]) {
        let body = 1 + self.begun.fetch_add(1, Ordering::Relaxed);
        let _inside: Vec<_> = spots.iter().map(|spot| self.enter(body, *spot)).collect();
        for spot in spots.iter().filter(|spot| !spot.shared) {
            let (visits, lock, seat) = (Arc::clone(self), lock.clone(), spot.seat);
            tokio::spawn(async move { visits.outlive(body, &lock, seat).await });
        }
        for _ in 0..2 {
            tokio::task::yield_now().await;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    fn enter(self: &Arc<Self>, body: u64, spot: Spot) -> Inside {
        let mut seat = self.seat(spot.seat);
        if seat.alone.is_some() || seat.readers > 0 && !spot.shared {
            self.violation(format!("body {body} ({spot:?}) began beside {seat:?}"));
        }
        seat.last = body;
        if spot.shared {
            seat.readers += 1;
        } else {
            seat.alone = Some(body);
        }
        Inside {
            visits: Arc::clone(self),
            body,
            spot,
        }
    }

    /// Works for as long as the handle allows it. No other body may have begun by then.
    async fn outlive(&self, body: u64, lock: &LockHandle, seat: usize) {
        loop {
            let last = self.seat(seat).last;
            if lock.check().is_err() {
                self.outlived.fetch_add(1, Ordering::Relaxed);
                return;
            }
            if last != body {
                return self.violation(format!(
                    "the handle of body {body} was good when body {last} had begun"
                ));
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

/// A body inside of a lock.
struct Inside {
    visits: Arc<Visits>,
    body: u64,
    spot: Spot,
}

impl Drop for Inside {
    fn drop(&mut self) {
        let mut seat = self.visits.seat(self.spot.seat);
        if self.spot.shared {
            seat.readers -= 1;
        } else if seat.alone == Some(self.body) {
            seat.alone = None;
        }
    }
}

/// Polls a call so many times at most, and drops it then. Returns whether it ended.
pub(super) async fn polled(times: u64, call: impl Future) -> bool {
    let mut call = pin!(call);
    let mut left = times;
    poll_fn(move |context| {
        if left == 0 {
            return Poll::Ready(false);
        }
        left -= 1;
        match call.as_mut().poll(context) {
            Poll::Ready(_) => Poll::Ready(true),
            Poll::Pending if left == 0 => Poll::Ready(false),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}
