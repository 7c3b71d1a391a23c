//! Orders made once, coupons, and webhooks.

use std::collections::HashMap;
use std::sync::Arc;

use leasehold::testing::{Kit, Point};
use leasehold::{LockError, distributed_lock};

use super::{Table, finish, round_trip};
use crate::{is_contended, is_lost, secs};

#[derive(Default)]
struct Shop {
    orders: Table<HashMap<u64, String>>,
    charged: Table<Vec<u64>>,
}

impl Shop {
    #[distributed_lock(key = "order:<id>", ttl = "10s", watchdog)]
    async fn create(&self, id: u64, what: &str) -> Result<String, LockError> {
        round_trip().await;
        if let Some(first) = self.orders.rows().get(&id) {
            return Ok(first.clone());
        }
        self.charged.rows().push(id);
        round_trip().await;
        self.orders.rows().insert(id, what.to_owned());
        Ok(what.to_owned())
    }
}

#[derive(Default)]
struct Coupons(Table<HashMap<String, String>>);

impl Coupons {
    #[distributed_lock(key = "coupon:<code>", ttl = "10s", wait = "2s")]
    async fn redeem(&self, code: &str, customer: &str) -> Result<bool, LockError> {
        let free = !self.0.rows().contains_key(code);
        round_trip().await;
        if free {
            self.0.rows().insert(code.to_owned(), customer.to_owned());
        }
        Ok(free)
    }
}

#[derive(Default)]
struct Webhooks(Table<u32>);

impl Webhooks {
    /// Receives an event. The sender may repeat an event for a minute, so `cooldown` keeps the lock
    /// for that long.
    #[distributed_lock(key = "event:<event>", ttl = "10s", cooldown = "1m")]
    async fn receive(&self, event: &str, works: bool) -> Result<(), LockError> {
        round_trip().await;
        if !works {
            return Err(LockError::unavailable("io", "the database is away"));
        }
        assert!(!event.is_empty());
        *self.0.rows() += 1;
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn an_order_is_made() {
    let (kit, shop) = (Kit::new(), Shop::default());
    let made = kit.scope(shop.create(42, "kettle")).await;
    assert_eq!(made, Ok("kettle".to_owned()));
    finish(&kit, "an_order_is_made");
}

#[tokio::test(start_paused = true)]
async fn a_double_click_makes_one_order() {
    let (kit, shop) = (Kit::new(), Shop::default());
    let clicks = async { tokio::join!(shop.create(42, "kettle"), shop.create(42, "kettle")) };
    let (first, second) = kit.scope(clicks).await;
    assert!(first.is_ok() && is_contended(&second));
    assert_eq!(*shop.charged.rows(), [42]);
    finish(&kit, "a_double_click_makes_one_order");
}

#[tokio::test(start_paused = true)]
async fn a_later_click_gets_the_first_order() {
    let (kit, shop) = (Kit::new(), Shop::default());
    let (first, second) = kit
        .scope(async {
            (
                shop.create(42, "kettle").await,
                shop.create(42, "teapot").await,
            )
        })
        .await;
    assert_eq!(first, second);
    assert_eq!(*shop.charged.rows(), [42]);
    finish(&kit, "a_later_click_gets_the_first_order");
}

#[tokio::test(start_paused = true)]
async fn another_process_makes_the_order() {
    let (kit, shop) = (Kit::new(), Shop::default());
    let other = kit.hold("order:42").await;
    assert!(is_contended(&kit.scope(shop.create(42, "kettle")).await));
    assert!(kit.scope(shop.create(43, "kettle")).await.is_ok());
    other.release().await;
    assert_eq!(*shop.charged.rows(), [43]);
    finish(&kit, "another_process_makes_the_order");
}

#[tokio::test(start_paused = true)]
async fn an_order_with_a_lost_lock_is_not_recorded() {
    let (kit, shop) = (Kit::new(), Shop::default());
    kit.lose_when("order:42", Point::AfterPolls(2)); // before the answer to the charge
    assert!(is_lost(&kit.scope(shop.create(42, "kettle")).await));
    assert!(shop.orders.rows().is_empty());
    assert_eq!(
        kit.scope(shop.create(42, "kettle")).await,
        Ok("kettle".to_owned())
    );
    finish(&kit, "an_order_with_a_lost_lock_is_not_recorded");
}

#[tokio::test(start_paused = true)]
async fn no_order_is_made_without_the_lock_store() {
    let (kit, shop) = (Kit::new(), Shop::default());
    kit.store_down();
    let refused = kit.scope(shop.create(42, "kettle")).await;
    assert_eq!(refused.map_err(|error| error.http_status()), Err(503));
    assert!(shop.charged.rows().is_empty());
    kit.store_up();
    assert!(kit.scope(shop.create(42, "kettle")).await.is_ok());
    finish(&kit, "no_order_is_made_without_the_lock_store");
}

#[tokio::test(start_paused = true)]
async fn a_coupon_has_one_owner() {
    let (kit, coupons) = (Kit::new(), Coupons::default());
    let both = async {
        tokio::join!(
            coupons.redeem("SPRING", "ada"),
            coupons.redeem("SPRING", "grace")
        )
    };
    assert_eq!(kit.scope(both).await, (Ok(true), Ok(false)));
    assert_eq!(coupons.0.rows()["SPRING"], "ada");
    finish(&kit, "a_coupon_has_one_owner");
}

#[tokio::test(start_paused = true)]
async fn coupons_do_not_wait_for_each_other() {
    let (kit, coupons) = (Kit::new(), Coupons::default());
    let _busy = kit.hold("coupon:SPRING").await;
    assert_eq!(kit.scope(coupons.redeem("AUTUMN", "ada")).await, Ok(true));
    finish(&kit, "coupons_do_not_wait_for_each_other");
}

#[tokio::test(start_paused = true)]
async fn a_busy_coupon_times_out() {
    let (kit, coupons) = (Kit::new(), Coupons::default());
    let _busy = kit.hold("coupon:SPRING").await;
    let refused = kit
        .scope(coupons.redeem("SPRING", "ada"))
        .await
        .expect_err("it is busy");
    assert!(matches!(refused, LockError::TimedOut { waited, .. } if waited >= secs(2)));
    finish(&kit, "a_busy_coupon_times_out");
}

#[tokio::test(start_paused = true)]
async fn a_repeated_event_counts_once() {
    let (kit, hooks) = (Kit::new(), Webhooks::default());
    kit.scope(async {
        assert_eq!(hooks.receive("e1", true).await, Ok(()));
        assert!(is_contended(&hooks.receive("e1", true).await));
        tokio::time::sleep(secs(59)).await;
        assert!(is_contended(&hooks.receive("e1", true).await));
    })
    .await;
    assert_eq!(*hooks.0.rows(), 1);
    finish(&kit, "a_repeated_event_counts_once");
}

#[tokio::test(start_paused = true)]
async fn a_failed_event_may_be_repeated() {
    let (kit, hooks) = (Kit::new(), Arc::new(Webhooks::default()));
    kit.scope(async {
        assert!(hooks.receive("e1", false).await.is_err());
        assert_eq!(hooks.receive("e1", true).await, Ok(()));
    })
    .await;
    finish(&kit, "a_failed_event_may_be_repeated");
}
