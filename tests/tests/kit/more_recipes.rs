//! Recipes that `docs/testing.md` mentions but does not show.

use leasehold::LockPool;
use mockall::mock;

use super::*;

#[tokio::test(start_paused = true)]
async fn an_order_outlives_a_short_outage() {
    let (kit, shop) = (Kit::new(), Shop::default());
    let outage = async {
        sleep(secs(1)).await; // the order is being made
        kit.store_down();
        sleep(secs(1)).await;
        kit.store_up();
    };
    let (order, ()) = tokio::join!(kit.scope(shop.create_order(42)), outage);
    assert!(order.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_buyer_waits_for_a_slow_store() {
    let kit = Kit::with(LockPool::builder().io_timeout(secs(3)));
    kit.delay(secs(2)); // each answer comes two seconds late
    let begun = Instant::now();
    assert!(kit.scope(sell("kettle")).await.is_ok());
    assert!(begun.elapsed() >= secs(3)); // two for the lock, one for the sale
}

mock! {
    Orders {
        async fn create(&self, id: u64) -> Result<u64, LockError>;
    }
}

#[tokio::test]
async fn a_mock_of_a_struct_takes_no_lock() {
    let mut orders = MockOrders::new();
    orders.expect_create().returning(|id| Ok(id + 1));
    assert_eq!(orders.create(42).await, Ok(43));
}

#[distributed_lock(key = "job:invoices", ttl = "30s", watchdog, max_hold = "1h")]
async fn send_invoices() -> Result<(), LockError> {
    sleep(secs(50 * 60)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_job_of_fifty_minutes_takes_no_time() {
    let kit = Kit::new();
    assert!(kit.scope(send_invoices()).await.is_ok());
    assert!(kit.history().renewals() > 250);
}
