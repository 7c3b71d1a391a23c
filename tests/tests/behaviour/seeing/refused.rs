//! Tests that the error of a refused call contains the holder of the lock.

use std::time::Duration;

use leasehold::LockError;
use leasehold_tests::on_every_store_of_leases;
use leasehold_tests::stores::Store;

use super::{HOLDER, TTL, is_here, while_held};

/// A `wait` that ends during a test. With a shorter one, the store would often not answer in time
/// on a busy machine.
const SHORT: Duration = Duration::from_secs(5);

on_every_store_of_leases!(
    a_refusal_names_the_holder,
    a_timed_out_call_names_the_holder,
    a_refusal_for_several_keys_names_the_holder,
    refusals_do_not_name_sharers,
);

#[track_caller]
fn names_the_holder(error: &LockError) {
    is_here(error.holder(), HOLDER);
    let text = error.to_string();
    let pid = format!("(pid {})", std::process::id());
    assert!(
        text.contains(&pid) && text.contains("::holder on "),
        "{text}"
    );
    assert!(!error.public_message().contains("holder"));
}

async fn a_refusal_names_the_holder(store: &Store) {
    while_held(store, async |pool, other| {
        for pool in [pool, other, pool, other] {
            let error = pool.lock("k").ttl(TTL).acquire().await;
            let error = error.expect_err("it is held");
            assert!(matches!(error, LockError::Contended { .. }), "{error}");
            names_the_holder(&error);
        }
    })
    .await;
}

async fn a_timed_out_call_names_the_holder(store: &Store) {
    while_held(store, async |pool, other| {
        for pool in [pool, other] {
            let error = pool.lock("k").ttl(TTL).wait(SHORT).acquire().await;
            let error = error.expect_err("it is held");
            assert!(matches!(error, LockError::TimedOut { .. }), "{error}");
            names_the_holder(&error);
        }
    })
    .await;
}

async fn a_refusal_for_several_keys_names_the_holder(store: &Store) {
    while_held(store, async |pool, other| {
        // Each call has different free keys, so that no call finds a key that an earlier call still
        // holds. `pool` holds `k` itself, so its calls request their keys one after the other. When
        // such a call is refused, it releases its first key in the background.
        let asked = [
            (pool, ["a", "k", "b"], Duration::ZERO),
            (pool, ["k", "c", "d"], SHORT),
            (other, ["e", "k", "f"], Duration::ZERO),
            (other, ["k", "g", "h"], SHORT),
        ];
        for (pool, keys, wait) in asked {
            let all = pool.lock_all(keys).ttl(TTL).wait(wait);
            let error = all.acquire().await.expect_err("one is held");
            assert!(error.is_contention(), "{error}");
            names_the_holder(&error);
        }
    })
    .await;
}

/// Fails if the error of a call refused by a shared lock names a holder: one of the sharers, or an
/// earlier exclusive holder.
async fn refusals_do_not_name_sharers(store: &Store) {
    let (pool, other) = (store.pool().await, store.pool().await);
    let alone = pool.lock("s").ttl(TTL).acquire().await.expect("free");
    let error = other.lock("s").ttl(TTL).acquire().await.expect_err("held");
    is_here(error.holder(), "");
    alone.release().await.expect("held");
    let share = pool.lock("s").ttl(TTL).shared().acquire().await;
    let share = share.expect("free");
    let error = other
        .lock("s")
        .ttl(TTL)
        .acquire()
        .await
        .expect_err("shared");
    assert_eq!(error.holder(), None, "{error}");
    share.release().await.expect("held");
}
