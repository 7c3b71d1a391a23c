//! The crate rslock with its default settings: it retries after a pause of up to 200 ms.

use leasehold::__test::now;
use rslock::LockManager;

use super::ground::local_runtime;
use super::r26_visit::{STAY, Section, TTL, Visit};
use super::span::nanos;

/// Takes the key again and again. Returns the sections.
pub(super) fn work(visit: &Visit) -> Vec<Section> {
    let manager = LockManager::new(vec![visit.url.as_str()]);
    let end = now() + nanos(visit.time);
    let mut sections = Vec::new();
    local_runtime().block_on(async {
        while now() < end {
            sections.push(section(&manager, &visit.key).await);
            tokio::time::sleep(visit.pause).await;
        }
    });
    sections
}

async fn section(manager: &LockManager, key: &str) -> Section {
    let asked = now();
    let guard = manager.acquire(key, TTL).await;
    let guard = guard.expect("it tries until it has the lock");
    let entered = now();
    tokio::time::sleep(STAY).await;
    let left = now();
    guard.release().await;
    Section {
        asked,
        entered,
        left,
    }
}
