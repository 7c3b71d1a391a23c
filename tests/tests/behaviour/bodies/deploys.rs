//! Two versions of a program that run at the same time, as in a rolling deploy. The table in
//! `docs/production.md` shows the result of each call.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use leasehold::{LockError, LockPool, LockRequest};
use leasehold_tests::on_every_store_of_leases;
use leasehold_tests::stores::Store;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

on_every_store_of_leases!(
    versions_with_other_permits_and_ttls_exclude_each_other,
    versions_with_another_key_template_do_not_exclude,
    versions_with_another_result_type_never_run_twice,
);

const LONG: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const OLD_TTL: Duration = Duration::from_secs(10);
const NEW_TTL: Duration = Duration::from_secs(20);

/// Makes six callers of each version take the lock repeatedly, each with the request of its
/// version. Returns the maximum number of callers inside at one time.
async fn load(
    store: &Store,
    old: fn(&LockPool) -> LockRequest,
    new: fn(&LockPool) -> LockRequest,
) -> usize {
    let (inside, most) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let mut calls = JoinSet::new();
    for request in [old, new] {
        let pool = store.pool().await;
        for _ in 0..6 {
            let (pool, inside, most) = (pool.clone(), Arc::clone(&inside), Arc::clone(&most));
            calls.spawn(async move {
                for _ in 0..15 {
                    let guard = request(&pool).wait(LONG).acquire().await?;
                    let now = inside.fetch_add(1, Ordering::SeqCst) + 1;
                    most.fetch_max(now, Ordering::SeqCst);
                    tokio::time::sleep(Duration::from_millis(3)).await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                    guard.release().await?;
                }
                Ok::<(), LockError>(())
            });
        }
    }
    while let Some(call) = calls.join_next().await {
        call.expect("no panic").expect("each call gets its turn");
    }
    most.load(Ordering::SeqCst)
}

/// The versions differ in the number of permits, or in the ttl and the watchdog. Fails if a call is
/// refused, or if more calls hold a lock than the larger number of permits allows. An exclusive
/// lock must have one holder.
async fn versions_with_other_permits_and_ttls_exclude_each_other(store: &Store) {
    let most = load(
        store,
        |pool| pool.lock("permits").ttl(OLD_TTL).permits(3),
        |pool| pool.lock("permits").ttl(NEW_TTL).permits(5),
    );
    let most = most.await;
    assert!((2..=5).contains(&most), "{most}");
    let most = load(
        store,
        |pool| pool.lock("ttl").ttl(OLD_TTL).watchdog(),
        |pool| pool.lock("ttl").ttl(NEW_TTL),
    );
    assert_eq!(most.await, 1);
}

/// The versions use different keys for the same order. Fails if their locks exclude each other.
/// `docs/production.md` states that they do not.
async fn versions_with_another_key_template_do_not_exclude(store: &Store) {
    let (old, new) = (store.pool().await, store.pool().await);
    let id = 7;
    let held = old.lock(format!("order:{id}")).ttl(OLD_TTL).acquire().await;
    let other = new
        .lock(format!("shop:order:{id}"))
        .ttl(NEW_TTL)
        .acquire()
        .await;
    other.expect("another lock").release().await.expect("held");
    // A third version, deployed between the old and the new version, takes both keys. So it
    // excludes calls of both versions.
    let both = [format!("order:{id}"), format!("shop:order:{id}")];
    let refused = new.lock_all(both.clone()).ttl(NEW_TTL).acquire().await;
    assert!(refused.expect_err("the old one is held").is_contention());
    held.expect("free").release().await.expect("held");
    let both = new.lock_all(both).ttl(NEW_TTL).wait(LONG).acquire().await;
    let both = both.expect("free");
    let refused = old.lock(format!("order:{id}")).ttl(OLD_TTL).acquire().await;
    assert!(refused.expect_err("it is held").is_contention());
    both.release().await.expect("held");
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct OldOrder {
    id: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct NewOrder {
    id: u64,
    #[serde(default)]
    note: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct OtherOrder {
    number: String,
}

async fn create<T>(pool: &LockPool, key: &str, value: T) -> Result<T, LockError>
where
    T: Serialize + for<'de> Deserialize<'de> + Send + 'static,
{
    let request = pool.lock(key).ttl(OLD_TTL).wait(LONG);
    request
        .run_replayed(DAY, async { Ok::<T, LockError>(value) })
        .await?
}

/// The versions use different types for the kept result of one order. Fails if a version runs the
/// body again although a result is kept, or if it reads this result as another order.
async fn versions_with_another_result_type_never_run_twice(store: &Store) {
    let (old, new) = (store.pool().await, store.pool().await);
    let first = OldOrder { id: 1 };
    let second = OldOrder { id: 2 };
    let note = String::new;
    assert_eq!(create(&old, "a", first.clone()).await, Ok(first.clone()));
    // The type of the new version has a field with a default, so each version can read the other
    // version's result.
    let read = create(
        &new,
        "a",
        NewOrder {
            id: 2,
            note: "new".to_owned(),
        },
    )
    .await;
    assert_eq!(
        read,
        Ok(NewOrder {
            id: 1,
            note: note()
        })
    );
    let made = NewOrder {
        id: 3,
        note: "new".to_owned(),
    };
    assert_eq!(create(&new, "b", made.clone()).await, Ok(made));
    assert_eq!(create(&old, "b", second).await, Ok(OldOrder { id: 3 }));
    // The kept result cannot be read as the type `OtherOrder`.
    let other = OtherOrder {
        number: "4".to_owned(),
    };
    let refused = create(&new, "a", other)
        .await
        .expect_err("it cannot be read");
    assert!(matches!(refused, LockError::Config { .. }), "{refused}");
    assert_eq!(create(&old, "a", OldOrder { id: 5 }).await, Ok(first));
}
