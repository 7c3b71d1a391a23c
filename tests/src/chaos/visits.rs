//! The bodies of requirement 37 (dropped calls). They record which body is in which lock. Bodies
//! with an exclusive lock also spawn tasks, which check this lock until it is lost.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use leasehold::LockHandle;

/// The bodies inside one lock.
#[derive(Debug, Default)]
struct Seat {
    /// Number of the body that holds the lock exclusively, if any.
    alone: Option<u64>,
    readers: u64,
    /// Number of the last body that began, exclusive or shared.
    last: u64,
}

/// All bodies of a run.
#[derive(Debug, Default)]
pub(super) struct Visits {
    seats: Vec<Mutex<Seat>>,
    begun: AtomicU64,
    /// Number of tasks that outlived their call and detected the loss of its lock.
    outlived: AtomicU64,
    violations: Mutex<Vec<String>>,
}

/// A lock that a body holds: the lock's index in `Visits::seats`, and its mode.
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

    /// Returns the recorded violations and forgets them.
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

    /// Runs the body of a call. For each exclusive lock, the body spawns a task that continues
    /// after the call.
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

    /// Checks that no other body begins for as long as the handle reports that the lock is held.
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

/// A body inside a lock. Dropping it records that the body has left.
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

/// Polls a call at most `times` times, and then drops it. Returns true if the call ended before the
/// drop.
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
