use std::time::Duration;

use leasehold::{LockError, LockPool, StoreError};

use super::{Coupons, answer};

/// A pool of the test's own. `memory://` shares its locks with no other pool, so tests with the
/// same coupon run side by side. (Pools of `memory://name` share theirs.)
async fn locks() -> LockPool {
    let pool = LockPool::connect("memory://").await;
    pool.expect("it is in memory")
}

#[tokio::test]
async fn the_first_customer_gets_the_coupon() {
    let coupons = Coupons::default();
    let owner = locks().await.scope(coupons.redeem("SPRING", "ada")).await;
    assert_eq!(answer(owner), (200, "it belongs to ada".to_owned()));
}

#[tokio::test]
async fn a_later_customer_learns_whose_it_is() {
    let coupons = Coupons::default();
    let both = async {
        coupons.redeem("SPRING", "ada").await?;
        coupons.redeem("SPRING", "grace").await
    };
    let owner = locks().await.scope(both).await;
    assert_eq!(answer(owner), (200, "it belongs to ada".to_owned()));
}

/// The test is the other call: it holds the lock while the function is called.
#[tokio::test]
async fn a_coupon_that_is_being_redeemed_is_refused() {
    let (locks, coupons) = (locks().await, Coupons::default());
    let other = locks.lock("coupon:SPRING").ttl(Duration::from_secs(10));
    let held = other.acquire().await.expect("no other call holds it");
    let refused = locks.scope(coupons.redeem("SPRING", "grace")).await;
    let text = "the same operation is already being processed".to_owned();
    assert_eq!(answer(refused), (409, text));
    assert_eq!(coupons.owner("SPRING"), None, "the body did not run");

    held.release().await.expect("the test still holds it");
    let owner = locks.scope(coupons.redeem("SPRING", "grace")).await;
    assert_eq!(answer(owner), (200, "it belongs to grace".to_owned()));
}

/// Any error can be made by hand, so the branch for a Redis that is away needs no Redis.
#[test]
fn a_lock_store_that_is_away_is_503() {
    let source = StoreError::new("timeout", "10.0.0.7 gave no answer within 1s");
    let text = "the lock service is not available".to_owned();
    assert_eq!(
        answer(Err(LockError::Unavailable { source })),
        (503, text),
        "the address of the server stays inside"
    );
}
