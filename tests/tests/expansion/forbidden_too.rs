//! Like `forbidden`, but without `return` at the end of a body.

use core::future::Future;
use core::pin::Pin;

use leasehold::{LockError, distributed_lock};

use super::support::tick;

/// A function that returns a result.
#[distributed_lock(key = "order:<id>", ttl = "10s")]
pub(super) async fn create(id: u64, _note: String) -> Result<u64, LockError> {
    tick().await;
    Ok(id)
}

/// A function whose body is one expression, in one line.
#[rustfmt::skip]
#[distributed_lock(key = "order:<id>", ttl = "10s")]
pub(super) async fn one_line(id: u64) -> Result<u64, LockError> { Ok(id) }

/// A function with a return type other than `Result`.
#[distributed_lock(key = "order:<id>", ttl = "10s", on_error = |_| None)]
pub(super) async fn optional(id: u64) -> Option<u64> {
    tick().await;
    Some(id)
}

/// A function without a returned value.
#[distributed_lock(key = "sweep", ttl = "10s", on_error = drop)]
pub(super) async fn sweep() {
    tick().await;
}

/// A function with a body that outlives its caller.
#[distributed_lock(key = "order:<id>", ttl = "10s", detach, guard = lock)]
pub(super) async fn detached(id: u64) -> Result<u64, LockError> {
    tick().await;
    lock.check()?;
    Ok(id)
}

/// A function that returns a boxed future.
#[distributed_lock(key = "tree:<depth>", ttl = "10s")]
pub(super) fn boxed(depth: u64) -> Pin<Box<dyn Future<Output = Result<u64, LockError>> + Send>> {
    Box::pin(async move {
        tick().await;
        Ok(depth)
    })
}

/// A synchronous function, in one line.
#[rustfmt::skip]
#[distributed_lock(key = "report:<day>", ttl = "10s", guard = _lock)]
pub(super) fn report(day: u64) -> Result<u64, LockError> { Ok(day) }

/// A synchronous function, without a result.
#[distributed_lock(key = "sweep", ttl = "10s", on_error = drop)]
pub(super) fn sweep_blocking() {}
