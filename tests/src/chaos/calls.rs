//! The annotated functions of a worker process: one for each combination of options.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold::__test::now;
use leasehold::{LockError, distributed_lock};

use super::answers;
use super::body;
use super::errand::Errand;
use super::job::Form;
use super::span::nanos;
use crate::oracle::{Mode, Note};

/// Number of permits of a key. Must equal the number in the attributes of [`place`] and
/// [`renewed_place`].
pub(super) const PLACES: u32 = 3;

/// Makes the call of `errand`. Writes a refusal or a lost lease to the history.
pub(super) async fn run(errand: Errand, watchdog: bool, wait: Duration) {
    let (desk, asked) = (Arc::clone(&errand.desk), errand.asked);
    let key = errand.key().to_owned();
    let began = Arc::clone(&errand.began);
    let ended = stamped(&began, make(errand, watchdog)).await;
    let at = now();
    match ended {
        Err(LockError::Lost { key, .. }) => desk.history.note(&Note::Lost { key, at }),
        Err(error) if error.is_contention() => desk.history.note(&Note::Refused {
            key,
            asked,
            at,
            wait: nanos(wait),
        }),
        Ok(()) => {}
        // The body failed, or the store does not answer. The pause keeps calls in a loop from
        // repeating their requests at once.
        Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
    }
}

/// Stores the start of each poll of `future` in `began`.
async fn stamped<F: Future>(began: &AtomicU64, future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|context| {
        began.store(now(), Ordering::Relaxed);
        future.as_mut().poll(context)
    })
    .await
}

async fn make(errand: Errand, watchdog: bool) -> Result<(), LockError> {
    match errand.form {
        Form::Plain => one(errand, watchdog).await,
        Form::Pair => pair(errand, watchdog).await,
        Form::Kept { .. } if watchdog => renewed_and_kept(errand).await,
        Form::Kept { .. } => kept(errand).await,
        Form::Nesting => nesting(errand, watchdog).await,
        Form::Replayed { .. } => answers::make(errand, watchdog).await,
        Form::ByHand => by_hand(errand).await,
        Form::Leading => leading(errand).await,
        Form::Downgrading { .. } => downgrading(errand, watchdog).await,
    }
}

async fn one(errand: Errand, watchdog: bool) -> Result<(), LockError> {
    match (errand.mode, watchdog) {
        (Mode::Alone, false) => plain(errand).await,
        (Mode::Alone, true) => renewed(errand).await,
        (Mode::Reader, false) => reader(errand).await,
        (Mode::Reader, true) => renewed_reader(errand).await,
        (Mode::Place(_), false) => place(errand).await,
        (Mode::Place(_), true) => renewed_place(errand).await,
    }
}

async fn pair(errand: Errand, watchdog: bool) -> Result<(), LockError> {
    match (errand.mode, watchdog) {
        (Mode::Reader, false) => reader_of_two(errand).await,
        (Mode::Reader, true) => renewed_reader_of_two(errand).await,
        (_, false) => two(errand).await,
        (_, true) => renewed_two(errand).await,
    }
}

async fn nesting(errand: Errand, watchdog: bool) -> Result<(), LockError> {
    match (errand.mode, watchdog) {
        (Mode::Reader, _) => nesting_reader(errand).await,
        (_, false) => nesting_plain(errand).await,
        (_, true) => nesting_renewed(errand).await,
    }
}

#[distributed_lock(key = "<errand.key()>", ttl = errand.ttl, guard = lock, pool = errand.pool)]
async fn plain(errand: Errand) -> Result<(), LockError> {
    body::inside(&errand, lock).await
}

#[distributed_lock(key = "<errand.key()>", ttl = errand.ttl, watchdog, guard = lock, pool = errand.pool)]
async fn renewed(errand: Errand) -> Result<(), LockError> {
    body::inside(&errand, lock).await
}

#[distributed_lock(key = "<errand.key()>", ttl = errand.ttl, shared, guard = lock, pool = errand.pool)]
async fn reader(errand: Errand) -> Result<(), LockError> {
    body::inside(&errand, lock).await
}

#[distributed_lock(key = "<errand.key()>", ttl = errand.ttl, shared, watchdog, guard = lock, pool = errand.pool)]
async fn renewed_reader(errand: Errand) -> Result<(), LockError> {
    body::inside(&errand, lock).await
}

#[distributed_lock(key = "<errand.key()>", ttl = errand.ttl, permits = 3, guard = lock, pool = errand.pool)]
async fn place(errand: Errand) -> Result<(), LockError> {
    body::inside(&errand, lock).await
}

#[distributed_lock(key = "<errand.key()>", ttl = errand.ttl, permits = 3, watchdog, guard = lock, pool = errand.pool)]
async fn renewed_place(errand: Errand) -> Result<(), LockError> {
    body::inside(&errand, lock).await
}

#[distributed_lock(key = ["<errand.key()>", "<errand.second()>"], ttl = errand.ttl, guard = lock, pool = errand.pool)]
async fn two(errand: Errand) -> Result<(), LockError> {
    body::inside(&errand, lock).await
}

#[distributed_lock(key = ["<errand.key()>", "<errand.second()>"], ttl = errand.ttl, watchdog, guard = lock, pool = errand.pool)]
async fn renewed_two(errand: Errand) -> Result<(), LockError> {
    body::inside(&errand, lock).await
}

#[distributed_lock(key = ["<errand.key()>", "<errand.second()>"], ttl = errand.ttl, shared, guard = lock, pool = errand.pool)]
async fn reader_of_two(errand: Errand) -> Result<(), LockError> {
    body::inside(&errand, lock).await
}

#[distributed_lock(key = ["<errand.key()>", "<errand.second()>"], ttl = errand.ttl, shared, watchdog, guard = lock, pool = errand.pool)]
async fn renewed_reader_of_two(errand: Errand) -> Result<(), LockError> {
    body::inside(&errand, lock).await
}

#[distributed_lock(key = "<errand.key()>", ttl = errand.ttl, cooldown = errand.cooldown(), guard = lock, pool = errand.pool)]
async fn kept(errand: Errand) -> Result<(), LockError> {
    body::inside(&errand, lock).await
}

#[distributed_lock(key = "<errand.key()>", ttl = errand.ttl, watchdog, cooldown = errand.cooldown(), guard = lock, pool = errand.pool)]
async fn renewed_and_kept(errand: Errand) -> Result<(), LockError> {
    body::inside(&errand, lock).await
}

#[distributed_lock(key = "<errand.key()>", ttl = errand.ttl, reentrant, guard = lock, pool = errand.pool)]
async fn nesting_plain(errand: Errand) -> Result<(), LockError> {
    body::inside(&errand, lock).await
}

#[distributed_lock(key = "<errand.key()>", ttl = errand.ttl, watchdog, reentrant, guard = lock, pool = errand.pool)]
async fn nesting_renewed(errand: Errand) -> Result<(), LockError> {
    body::inside(&errand, lock).await
}

#[distributed_lock(key = "<errand.key()>", ttl = errand.ttl, shared, guard = lock, pool = errand.pool)]
async fn nesting_reader(errand: Errand) -> Result<(), LockError> {
    body::inside(&errand, lock).await
}

async fn by_hand(errand: Errand) -> Result<(), LockError> {
    let request = errand.pool.lock(errand.key()).ttl(errand.ttl);
    let guard = request.acquire().await?;
    let ended = body::inside(&errand, guard.handle()).await;
    ended.and(guard.release().await)
}

async fn leading(errand: Errand) -> Result<(), LockError> {
    let request = errand.pool.lock(errand.key()).ttl(errand.ttl);
    let lead = |lock| {
        let errand = errand.clone();
        async move { body::inside(&errand, lock).await }
    };
    request.lead(lead).await?
}

/// Takes the lock as a guard, because only a guard can be downgraded. The library checks no lease
/// before the polls of a body under a guard, so the body itself checks its lease.
async fn downgrading(errand: Errand, watchdog: bool) -> Result<(), LockError> {
    let mut request = errand.pool.lock(errand.key()).ttl(errand.ttl);
    if watchdog {
        request = request.watchdog();
    }
    if let Form::Downgrading { max_hold_ms } = errand.form
        && max_hold_ms > 0
    {
        request = request.max_hold(Duration::from_millis(max_hold_ms));
    }
    let mut guard = request.acquire().await?;
    let ended = body::downgraded(&errand, &mut guard).await;
    ended.and(guard.release().await)
}
