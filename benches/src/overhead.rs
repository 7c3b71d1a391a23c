//! The cost of the attribute without a server.
//!
//! Measures a call of an annotated function on `memory://`, and on a store that does nothing. For
//! comparison, measures a call of the function's body alone. Also measures one poll of a body
//! inside a held lock.

use std::future::poll_fn;
use std::hint::black_box;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use leasehold::{LockError, LockPool, distributed_lock};

use crate::clock;
use crate::contestants::Fault;
use crate::figures::{Figures, quantile};

/// Number of calls between two readings of the clock.
const BATCH: u32 = 100;
/// Number of polls, or of calls of the body alone, between two readings of the clock. It is larger
/// than `BATCH`, because each of them takes only nanoseconds.
const POLLS: u32 = 10_000;

/// Returns the figures of one round, with the name of each measurement.
pub(crate) fn run(window: Duration) -> Result<Vec<(&'static str, Figures)>, Fault> {
    let runtime = tokio::runtime::Runtime::new()?;
    let window = window / 5;
    runtime.block_on(async {
        let pool = LockPool::connect("memory://").await?;
        let nothing = leasehold::__test::pool_of_nothing().await;
        Ok(vec![
            ("direct", direct(window).await?),
            ("leasehold_on_memory", annotated(&pool, window).await?),
            ("leasehold", annotated(&nothing, window).await?),
            ("gate", gate(&pool, window).await?),
            ("leasehold_blocking", blocking(nothing, window).await?),
        ])
    })
}

#[allow(clippy::unused_async, reason = "what the attribute is put on is async")]
async fn body(number: u32) -> Result<u32, LockError> {
    Ok(black_box(number).wrapping_add(1))
}

#[distributed_lock(key = "overhead", ttl = "10s", pool = pool)]
async fn locked(pool: &LockPool, number: u32) -> Result<u32, LockError> {
    body(number).await
}

async fn direct(window: Duration) -> Result<Figures, Fault> {
    let mut batches = Batches::new(window, POLLS);
    while batches.go_on() {
        for number in 0..POLLS {
            black_box(body(number).await?);
        }
        batches.end();
    }
    Ok(batches.figures())
}

async fn annotated(pool: &LockPool, window: Duration) -> Result<Figures, Fault> {
    let mut batches = Batches::new(window, BATCH);
    while batches.go_on() {
        for number in 0..BATCH {
            black_box(locked(pool, number).await?);
        }
        batches.end();
    }
    Ok(batches.figures())
}

#[distributed_lock(key = "overhead", ttl = "10s", pool = pool)]
fn locked_blocking(pool: &LockPool, number: u32) -> Result<u32, LockError> {
    Ok(black_box(number).wrapping_add(1))
}

/// Measures a synchronous function, on a thread that may block.
async fn blocking(pool: LockPool, window: Duration) -> Result<Figures, Fault> {
    let measured = tokio::task::spawn_blocking(move || {
        let mut batches = Batches::new(window, BATCH);
        while batches.go_on() {
            for number in 0..BATCH {
                black_box(locked_blocking(&pool, number)?);
            }
            batches.end();
        }
        Ok::<_, LockError>(batches.figures())
    });
    Ok(measured.await??)
}

/// Measures one poll of an endless body inside a lock, minus a poll of such a body without a lock.
async fn gate(pool: &LockPool, window: Duration) -> Result<Figures, Fault> {
    let bare = poll_again(poll_fn(|_| Poll::<()>::Pending), window / 2);
    let mut inside = false;
    let guarded = {
        let body = poll_fn(|_| {
            inside = true;
            Poll::<()>::Pending
        });
        let mut request = pin!(pool.lock("gate").ttl(Duration::from_hours(1)).run(body));
        // Polls the request for a second, in which the engine grants the lock. So every later poll
        // reaches the body.
        let granted = tokio::time::timeout(Duration::from_secs(1), &mut request).await;
        debug_assert!(granted.is_err());
        poll_again(request, window / 2)
    };
    if !inside {
        return Err("the lock on memory:// was not granted within 1 s".into());
    }
    let mut figures = Figures::new();
    for (metric, value) in guarded {
        let bare = bare.get(metric).copied().unwrap_or_default();
        figures.insert(metric, (value - bare).max(0.0));
    }
    Ok(figures)
}

fn poll_again(body: impl Future, window: Duration) -> Figures {
    let mut body = pin!(body);
    let mut context = Context::from_waker(Waker::noop());
    let mut batches = Batches::new(window, POLLS);
    while batches.go_on() {
        for _ in 0..POLLS {
            let _ = black_box(body.as_mut().poll(&mut context));
        }
        batches.end();
    }
    batches.figures()
}

/// Measures the time of batches of calls, because a single call is too short to measure.
struct Batches {
    size: u32,
    end: u64,
    began: u64,
    /// Picoseconds per call.
    spans: Vec<u64>,
}

impl Batches {
    fn new(window: Duration, size: u32) -> Self {
        let began = clock::now();
        Self {
            size,
            end: began + clock::nanos(window),
            began,
            spans: Vec::new(),
        }
    }

    fn go_on(&self) -> bool {
        self.began < self.end
    }

    fn end(&mut self) {
        let now = clock::now();
        self.spans
            .push((now - self.began) * 1_000 / u64::from(self.size));
        self.began = now;
    }

    fn figures(mut self) -> Figures {
        self.spans.sort_unstable();
        #[allow(clippy::cast_precision_loss, reason = "spans are short")]
        let micros = |q| quantile(&self.spans, q) as f64 / 1e6;
        let quantiles = [("least_us", 0.0), ("p50_us", 0.5), ("p99_us", 0.99)];
        quantiles.map(|(name, q)| (name, micros(q))).into()
    }
}
