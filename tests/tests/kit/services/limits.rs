//! Two services: a provider that allows three calls at a time, and a cache that one call at a time
//! refreshes.

use std::sync::Arc;

use leasehold::testing::Kit;
use leasehold::{LockError, distributed_lock};

use super::{Table, finish, round_trip};
use crate::{is_contended, secs};

/// A table with the number of calls that run now, and the maximum so far.
#[derive(Default)]
struct Provider(Table<(u32, u32)>);

impl Provider {
    #[distributed_lock(key = "provider", ttl = "10s", permits = 3, wait = "30s")]
    async fn call(&self) -> Result<(), LockError> {
        let now = {
            let mut calls = self.0.rows();
            calls.0 += 1;
            calls.0
        };
        round_trip().await;
        let mut calls = self.0.rows();
        *calls = (calls.0 - 1, calls.1.max(now));
        Ok(())
    }
}

#[derive(Default)]
struct Cache(Table<u32>);

impl Cache {
    /// True if this call has refreshed the cache.
    #[distributed_lock(key = "cache:<name>", ttl = "5s", on_error = |_| false)]
    async fn refresh(&self, name: &str) -> bool {
        assert!(!name.is_empty());
        round_trip().await;
        *self.0.rows() += 1;
        true
    }
}

#[tokio::test(start_paused = true)]
async fn at_most_three_calls_run_at_once() {
    let (kit, provider) = (Kit::new(), Arc::new(Provider::default()));
    kit.scope(async {
        let calls: Vec<_> = (0..9)
            .map(|_| {
                let provider = Arc::clone(&provider);
                leasehold::spawn(async move { provider.call().await })
            })
            .collect();
        for call in calls {
            call.await.expect("no panic").expect("it waits");
        }
    })
    .await;
    assert_eq!(*provider.0.rows(), (0, 3));
    finish(&kit, "at_most_three_calls_run_at_once");
}

#[tokio::test(start_paused = true)]
async fn permits_are_shared_with_other_processes() {
    let (kit, provider) = (Kit::new(), Provider::default());
    let others = [
        kit.hold("provider").permits(3).await,
        kit.hold("provider").permits(3).await,
        kit.hold("provider")
            .permits(3)
            .releases_after(secs(1))
            .await,
    ];
    let once = kit
        .pool()
        .lock("provider")
        .ttl(secs(10))
        .permits(3)
        .acquire();
    assert!(is_contended(&once.await));
    assert_eq!(kit.scope(provider.call()).await, Ok(()));
    drop(others);
    finish(&kit, "permits_are_shared_with_other_processes");
}

#[tokio::test(start_paused = true)]
async fn one_call_refreshes_the_cache() {
    let (kit, cache) = (Kit::new(), Cache::default());
    let calls = async {
        tokio::join!(
            cache.refresh("prices"),
            cache.refresh("prices"),
            cache.refresh("prices")
        )
    };
    assert_eq!(kit.scope(calls).await, (true, false, false));
    assert_eq!(*cache.0.rows(), 1);
    finish(&kit, "one_call_refreshes_the_cache");
}

#[tokio::test(start_paused = true)]
async fn the_old_cache_serves_while_the_lock_store_is_away() {
    let (kit, cache) = (Kit::new(), Cache::default());
    kit.store_down();
    assert!(!kit.scope(cache.refresh("prices")).await);
    finish(&kit, "the_old_cache_serves_while_the_lock_store_is_away");
}
