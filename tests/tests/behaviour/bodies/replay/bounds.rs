//! Tests of results that cannot be kept, and of options that `replay` refuses.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use leasehold::{LockError, LockPool};
use leasehold_tests::on_every_store_of_leases;
use leasehold_tests::stores::Store;

use super::{DAY, End, HANG, Order, Shop, TTL, click_by_hand, order};
use crate::bodies::is_released;

/// Fails if a result above the size limit is kept, or if its caller does not get it.
#[tokio::test]
async fn a_large_result_is_returned_and_not_kept() {
    let json = "x".repeat(14);
    for (limit, runs) in [(16, 1), (15, 2), (0, 2)] {
        let pool = LockPool::builder().url("memory://").replay_limit(limit);
        let pool = pool.connect().await.expect("in this process");
        let mut bodies = 0;
        for _ in 0..2 {
            let body = async {
                bodies += 1;
                Ok::<_, LockError>(json.clone())
            };
            let request = pool.lock("large").ttl(TTL).run_replayed(DAY, body);
            assert_eq!(request.await, Ok(Ok(json.clone())), "{limit}");
        }
        assert_eq!(bodies, runs, "with a limit of {limit} bytes");
    }
}

/// Fails if a pool keeps results that the client could not read back.
#[tokio::test]
async fn the_limit_of_results_has_a_bound() {
    const MOST: usize = 8 * 1024 * 1024;
    for (limit, is_possible) in [(MOST, true), (MOST + 1, false)] {
        let pool = LockPool::builder().url("memory://").replay_limit(limit);
        let pool = pool.connect().await;
        assert_eq!(pool.is_ok(), is_possible, "{limit}");
    }
}

/// Fails if a caller does not get its result because the value cannot be written as JSON.
#[tokio::test]
async fn a_value_without_json_is_returned() {
    let pool = LockPool::connect("memory://").await.expect("here");
    let value = HashMap::from([(vec![1_u8], 2_u8)]);
    for _ in 0..2 {
        let value = value.clone();
        let body = async { Ok::<_, LockError>(value.clone()) };
        let request = pool.lock("map").ttl(TTL).run_replayed(DAY, body);
        assert_eq!(request.await, Ok(Ok(value.clone())));
    }
}

/// Fails if a fingerprint is ignored because the call keeps no result.
#[tokio::test]
async fn a_fingerprint_without_a_kept_result_is_refused() {
    let pool = LockPool::connect("memory://").await.expect("here");
    let request = pool.lock("cart").ttl(TTL).fingerprint("two cups");
    let refused = request.acquire().await.map(drop);
    let Err(LockError::Config { reason }) = refused else {
        panic!("{refused:?}");
    };
    assert!(reason.contains("run_replayed"), "{reason}");
}

/// A call requests a kept result as another type. Fails if the body of this call runs, if the
/// result is read as the requested type, or if the call counts as replayed.
async fn a_result_of_another_type_is_an_error(store: &Store) {
    let pool = store.pool().await;
    let shop = Shop::new();
    let asked = Instant::now();
    click_by_hand(&pool, &shop).await.expect("the first");
    is_released(&*store.probe, "order", asked).await;
    let body = async { Ok::<u64, LockError>(7) };
    let other = pool.lock("order").ttl(TTL).run_replayed(DAY, body);
    let (other, replayed) = leasehold::watch_replays(other).await;
    assert!(!replayed, "{other:?}");
    let Err(LockError::Config { reason }) = &other else {
        panic!("{other:?}");
    };
    assert!(
        reason.contains("`order`") && reason.contains("forget"),
        "{reason}"
    );
    assert!(!reason.contains("kettle"), "it shows the result: {reason}");
    assert_eq!(click_by_hand(&pool, &shop).await, Ok(order(1)));
}

/// Fails if `min_hold` prevents a result from being kept, or if a kept result prevents `min_hold`.
async fn replay_and_at_least_can_be_combined(store: &Store) {
    let pool = store.pool().await;
    let shop = Shop::new();
    for _ in 0..2 {
        let request = pool.lock("order").ttl(TTL).wait(HANG).min_hold(TTL / 2);
        let paid: Order = request
            .run_replayed(DAY, shop.order(End::Paid))
            .await
            .expect("free, or kept")
            .expect("paid");
        assert_eq!(paid, order(1));
        assert!(store.probe.exists("order"), "it is to stay");
    }
}

on_every_store_of_leases!(
    a_result_of_another_type_is_an_error,
    replay_and_at_least_can_be_combined,
);

/// Fails if `replay` accepts an option that it does not support, or if the error does not name the
/// option.
#[tokio::test]
async fn options_incompatible_with_replay_are_refused() {
    let pool = LockPool::connect("memory://").await.expect("here");
    let alone = || pool.lock("k").ttl(TTL);
    for (request, stays, expected) in [
        (alone().shared(), DAY, "`shared`"),
        (alone().permits(2), DAY, "`permits`"),
        (alone().reentrant(), DAY, "`reentrant`"),
        (pool.lock_all(["a", "b"]).ttl(TTL), DAY, "one key"),
        (alone(), Duration::ZERO, "30 days"),
        (alone(), DAY * 31, "30 days"),
        (
            alone().fingerprint(&HashMap::from([([1], 2)])),
            DAY,
            "`fingerprint`",
        ),
    ] {
        let body = async { Ok::<(), LockError>(()) };
        let refused = request.run_replayed(stays, body).await;
        let Err(LockError::Config { reason }) = refused else {
            panic!("{expected}: {refused:?}");
        };
        assert!(reason.contains(expected), "{reason}");
    }
}
