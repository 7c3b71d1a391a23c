//! The recipes of `docs/testing.md`: the blocks of code of this page, in their order.

#[tokio::test(start_paused = true)]
async fn another_process_makes_the_order() {
    let (kit, shop) = (Kit::new(), Shop::default());
    let other = kit.hold("order:42").await;

    let refused = kit.scope(shop.create_order(42)).await.unwrap_err();
    assert!(refused.is_contention());
    assert_eq!(refused.http_status(), 409);
    assert_eq!(shop.charges(), 0, "the body did not run");

    other.release().await;
    assert!(kit.scope(shop.create_order(42)).await.is_ok());
}

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use leasehold::testing::{Kit, Point};
use leasehold::{LockError, assert_held, distributed_lock};
use tokio::time::{Instant, sleep};

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// The service under test: it charges a customer and makes an order.
#[derive(Default)]
struct Shop {
    orders: Mutex<HashMap<u64, String>>,
    charges: Mutex<Vec<u64>>,
}

impl Shop {
    #[distributed_lock(key = "order:<id>", ttl = "10s", watchdog)]
    async fn create_order(&self, id: u64) -> Result<String, LockError> {
        if let Some(first) = self.order(id) {
            return Ok(first);
        }
        self.charge(id).await;
        sleep(secs(1)).await; // the database
        let order = format!("order {id}");
        self.record(id, &order);
        Ok(order)
    }

    async fn charge(&self, id: u64) {
        sleep(secs(2)).await; // the payment provider
        self.charges.lock().unwrap().push(id);
    }

    /// Must never run outside of the order's lock.
    fn record(&self, id: u64, order: &str) {
        assert_held!(format!("order:{id}"));
        self.orders.lock().unwrap().insert(id, order.to_owned());
    }

    fn order(&self, id: u64) -> Option<String> {
        self.orders.lock().unwrap().get(&id).cloned()
    }

    fn charges(&self) -> usize {
        self.charges.lock().unwrap().len()
    }
}

#[distributed_lock(key = "item:<sku>", ttl = "5s", wait = "5s")]
async fn sell(sku: &str) -> Result<String, LockError> {
    sleep(secs(1)).await;
    Ok(format!("one {sku}"))
}

#[tokio::test(start_paused = true)]
async fn a_buyer_waits_for_the_lock() {
    let kit = Kit::new();
    let _other = kit.hold("item:kettle").releases_after(secs(3)).await;
    assert!(kit.scope(sell("kettle")).await.is_ok());

    let _reader = kit.hold("catalog").shared().await;
    let _worker = kit.hold("report").permits(3).await;
}

#[tokio::test(start_paused = true)]
async fn a_buyer_gets_the_lock_of_a_dead_machine() {
    let kit = Kit::new();
    kit.hold("item:kettle").ttl(secs(4)).await.expire();
    assert!(kit.scope(sell("kettle")).await.is_ok()); // after four seconds
}

#[tokio::test(start_paused = true)]
async fn an_order_with_a_lost_lock_is_not_recorded() {
    let (kit, shop) = (Kit::new(), Shop::default());
    kit.lose_when("order:42", Point::After(secs(1))); // while it is charged
    let lost = kit.scope(shop.create_order(42)).await.unwrap_err();
    assert!(lost.is_lost());
    assert_eq!(shop.order(42), None);
}

#[tokio::test(start_paused = true)]
async fn the_lock_can_be_lost_at_every_await() {
    for polls in 0.. {
        let (kit, shop) = (Kit::new(), Shop::default());
        kit.lose_when("order:42", Point::AfterPolls(polls));
        let ended = kit.scope(shop.create_order(42)).await;
        assert_eq!(shop.order(42).is_some(), ended.is_ok());
        if ended.is_ok() {
            assert_eq!(polls, 3, "the body has ended before");
            break;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_charged_without_the_lock_store() {
    let (kit, shop) = (Kit::new(), Shop::default());
    kit.store_down();
    let refused = kit.scope(shop.create_order(42)).await.unwrap_err();
    assert!(refused.is_unavailable());
    assert_eq!(refused.http_status(), 503);
    assert_eq!(shop.charges(), 0);

    kit.store_up();
    assert!(kit.scope(shop.create_order(42)).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_buyer_gives_up_in_time() {
    let kit = Kit::new();
    let _other = kit.hold("item:kettle").await;
    let begun = Instant::now();
    let refused = kit.scope(sell("kettle")).await.unwrap_err();
    assert!(matches!(refused, LockError::TimedOut { .. }));
    assert_eq!(begun.elapsed().as_secs(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_double_click_makes_one_order() {
    let (kit, shop) = (Kit::new(), Shop::default());
    kit.scope(async {
        let (first, second) = tokio::join!(shop.create_order(42), shop.create_order(42));
        assert!(first.is_ok() && second.unwrap_err().is_contention());

        let later = shop.create_order(42).await; // finds the first order
        assert_eq!(later.unwrap(), "order 42");
    })
    .await;
    assert_eq!(shop.charges(), 1);

    let history = kit.history().of("order:42");
    assert!(history.is_exclusive(), "{history}");
    assert_eq!((history.grants(), history.refusals()), (2, 1), "{history}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_spawned_task_is_in_the_scope() {
    let kit = Kit::new();
    kit.scope(async {
        let task = leasehold::spawn(async { sell("kettle").await });
        assert!(task.await.unwrap().is_ok());
    })
    .await;
}

mod with_rstest {
    use rstest::{fixture, rstest};

    use super::*;

    #[fixture]
    fn kit() -> Kit {
        Kit::new()
    }

    #[rstest]
    #[case::before_the_charge(Point::AfterPolls(0), 0)]
    #[case::during_the_charge(Point::AfterPolls(1), 0)]
    #[case::after_the_charge(Point::AfterPolls(2), 1)]
    #[tokio::test(start_paused = true)]
    async fn a_lost_lock_stops_an_order(kit: Kit, #[case] point: Point, #[case] charges: usize) {
        let shop = Shop::default();
        kit.lose_when("order:42", point);
        let lost = kit.scope(shop.create_order(42)).await.unwrap_err();
        assert!(lost.is_lost());
        assert_eq!((shop.charges(), shop.order(42)), (charges, None));
    }
}

mod with_mockall {
    use async_trait::async_trait;
    use mockall::automock;

    use super::*;

    #[automock]
    #[async_trait]
    trait Refunds {
        async fn refund(&self, id: u64) -> Result<u64, LockError>;
    }

    struct Bank;

    #[async_trait]
    impl Refunds for Bank {
        #[distributed_lock(key = "refund:<id>", ttl = "10s")]
        async fn refund(&self, id: u64) -> Result<u64, LockError> {
            Ok(id)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_mock_takes_no_lock() {
        let mut refunds = MockRefunds::new();
        refunds.expect_refund().returning(|_| Ok(7));
        assert_eq!(refunds.refund(42).await, Ok(7));

        let kit = Kit::new();
        let other = kit.hold("refund:42").await;
        assert!(kit.scope(Bank.refund(42)).await.is_err());
        other.release().await;
        assert_eq!(kit.scope(Bank.refund(42)).await, Ok(42));
    }
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "the lock `order:42` is not held here")]
async fn nothing_is_recorded_outside_of_the_lock() {
    Shop::default().record(42, "order 42");
}

#[tokio::test]
async fn the_recipe_works_in_memory_and_on_a_server() -> Result<(), LockError> {
    let url = std::env::var("TEST_LOCKS_URL").unwrap_or_else(|_| "memory://".to_owned());
    let kit = Kit::on(&url).await?;
    let other = kit.hold("item:kettle");
    let _other = other.releases_after(Duration::from_millis(100)).await;
    assert!(kit.scope(sell("kettle")).await.is_ok());
    Ok(())
}

#[path = "more_recipes.rs"]
mod more;
