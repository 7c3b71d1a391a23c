use leasehold::testing::{Kit, Point};

use super::{Coupons, answer};

#[tokio::test(start_paused = true)]
async fn the_first_customer_gets_the_coupon() {
    let (kit, coupons) = (Kit::new(), Coupons::default());
    let owner = kit.scope(coupons.redeem("SPRING", "ada")).await;
    assert_eq!(answer(owner), (200, "it belongs to ada".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_later_customer_sees_the_owner_of_the_coupon() {
    let (kit, coupons) = (Kit::new(), Coupons::default());
    let both = async {
        coupons.redeem("SPRING", "ada").await?;
        coupons.redeem("SPRING", "grace").await
    };
    let owner = kit.scope(both).await;
    assert_eq!(answer(owner), (200, "it belongs to ada".to_owned()));
}

/// Another process holds the lock while a customer tries to redeem the coupon.
#[tokio::test(start_paused = true)]
async fn a_coupon_that_is_being_redeemed_is_refused() {
    let (kit, coupons) = (Kit::new(), Coupons::default());
    let other = kit.hold("coupon:SPRING").await;
    let refused = kit.scope(coupons.redeem("SPRING", "grace")).await;
    let text = "the same operation is already being processed".to_owned();
    assert_eq!(answer(refused), (409, text));
    assert_eq!(coupons.owner("SPRING"), None, "the body did not run");

    other.release().await;
    let owner = kit.scope(coupons.redeem("SPRING", "grace")).await;
    assert_eq!(answer(owner), (200, "it belongs to grace".to_owned()));
}

/// The lease ends while the body waits for its database, so the body does not continue.
#[tokio::test(start_paused = true)]
async fn a_coupon_is_not_given_without_the_lock() {
    let (kit, coupons) = (Kit::new(), Coupons::default());
    kit.lose_when("coupon:SPRING", Point::AfterPolls(1));
    let lost = kit.scope(coupons.redeem("SPRING", "ada")).await;
    assert_eq!(answer(lost).0, 500);
    assert_eq!(coupons.owner("SPRING"), None);
}

#[tokio::test(start_paused = true)]
async fn an_unavailable_lock_store_is_503() {
    let (kit, coupons) = (Kit::new(), Coupons::default());
    kit.store_down();
    let refused = kit.scope(coupons.redeem("SPRING", "ada")).await;
    let text = "the lock service is not available".to_owned();
    assert_eq!(answer(refused), (503, text));

    kit.store_up();
    let owner = kit.scope(coupons.redeem("SPRING", "ada")).await;
    assert_eq!(answer(owner).0, 200);
}
