//! The annotated functions of a worker process: one for each way to hold a lock.

use leasehold::{LockError, distributed_lock};

use super::body::{self, Errand};
use super::job::Work;
use crate::oracle::Mode;

/// How many places there are: what the attribute of [`place`] says.
pub(super) const PLACES: u32 = 3;

/// Makes the call.
pub(super) async fn make(errand: Errand, watchdog: bool) -> Result<(), LockError> {
    if let Work::ByHand { .. } = errand.work {
        return by_hand(errand).await;
    }
    match (errand.mode, watchdog) {
        (Mode::Alone, false) => plain(errand).await,
        (Mode::Alone, true) => renewed(errand).await,
        (Mode::Reader, false) => reader(errand).await,
        (Mode::Reader, true) => renewed_reader(errand).await,
        (Mode::Place(_), false) => place(errand).await,
        (Mode::Place(_), true) => renewed_place(errand).await,
    }
}

async fn by_hand(errand: Errand) -> Result<(), LockError> {
    let request = errand.pool.lock(&errand.key).ttl(errand.ttl);
    let guard = request.acquire().await?;
    body::inside(&errand, guard.handle()).await;
    guard.release().await
}

#[distributed_lock(key = "<errand.key>", ttl = errand.ttl, guard = lock, pool = errand.pool)]
async fn plain(errand: Errand) -> Result<(), LockError> {
    body::inside(&errand, lock).await;
    Ok(())
}

#[distributed_lock(key = "<errand.key>", ttl = errand.ttl, watchdog, guard = lock, pool = errand.pool)]
async fn renewed(errand: Errand) -> Result<(), LockError> {
    body::inside(&errand, lock).await;
    Ok(())
}

#[distributed_lock(key = "<errand.key>", ttl = errand.ttl, shared, guard = lock, pool = errand.pool)]
async fn reader(errand: Errand) -> Result<(), LockError> {
    body::inside(&errand, lock).await;
    Ok(())
}

#[distributed_lock(key = "<errand.key>", ttl = errand.ttl, shared, watchdog, guard = lock, pool = errand.pool)]
async fn renewed_reader(errand: Errand) -> Result<(), LockError> {
    body::inside(&errand, lock).await;
    Ok(())
}

#[distributed_lock(key = "<errand.key>", ttl = errand.ttl, permits = 3, guard = lock, pool = errand.pool)]
async fn place(errand: Errand) -> Result<(), LockError> {
    body::inside(&errand, lock).await;
    Ok(())
}

#[distributed_lock(key = "<errand.key>", ttl = errand.ttl, permits = 3, watchdog, guard = lock, pool = errand.pool)]
async fn renewed_place(errand: Errand) -> Result<(), LockError> {
    body::inside(&errand, lock).await;
    Ok(())
}
