//! Tests of `leasehold::testing` from a user's point of view: the kit itself, the recipes of
//! `docs/testing.md`, and thirty-five tests of typical services. No pool is installed in this
//! program.

mod held;
mod history;
mod holders;
mod losses;
mod outages;
mod page;
mod recipes;
mod servers;
mod services;

use std::time::Duration;

use leasehold::testing::Kit;
use leasehold::{LockError, LockRequest};

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// Returns a request of the kit's pool for `order:42`, with a ttl of ten seconds and no watchdog.
fn request(kit: &Kit) -> LockRequest {
    kit.pool().lock("order:42").ttl(secs(10))
}

fn is_contended<T>(result: &Result<T, LockError>) -> bool {
    matches!(result, Err(LockError::Contended { .. }))
}

fn is_lost<T>(result: &Result<T, LockError>) -> bool {
    matches!(result, Err(LockError::Lost { .. }))
}
