//! Tests of kept results (`replay`). The calls stand for clicks on "buy": the second click gets the
//! result of the first click.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use leasehold::{LockError, LockPool, distributed_lock};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

mod bounds;
mod deployments;
mod functions;
mod once;
mod requests;
mod values;

const TTL: Duration = Duration::from_secs(20);
/// Time for which most results are kept. It is longer than any test.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Time limit for one call. A call takes longer only if it hangs.
const HANG: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Order {
    number: u32,
    note: String,
}

#[derive(Debug, PartialEq)]
enum OrderError {
    Declined,
    Lock(LockError),
}

impl From<LockError> for OrderError {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}

/// The way in which a body ends.
#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    Paid,
    Declined,
    Panics,
    Hangs,
}

/// A counter of bodies. It notifies the test when a body begins, and can make the bodies wait for a
/// signal of the test.
#[derive(Debug, Default)]
struct Shop {
    bodies: AtomicU32,
    /// Notified when a body has begun.
    begun: Notify,
    /// If set, each body waits for this signal.
    goes_on: Option<Notify>,
}

impl Shop {
    fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Returns a shop whose bodies wait for `go_on`.
    fn slow() -> Arc<Self> {
        Arc::new(Self {
            goes_on: Some(Notify::new()),
            ..Self::default()
        })
    }

    fn bodies(&self) -> u32 {
        self.bodies.load(Ordering::SeqCst)
    }

    fn go_on(&self) {
        self.goes_on.as_ref().expect("it is slow").notify_one();
    }

    async fn order(&self, end: End) -> Result<Order, OrderError> {
        let number = self.bodies.fetch_add(1, Ordering::SeqCst) + 1;
        self.begun.notify_one();
        tokio::task::yield_now().await;
        if let Some(goes_on) = &self.goes_on {
            goes_on.notified().await;
        }
        match end {
            End::Paid => Ok(Order {
                number,
                note: "1 \"kettle\": \u{fc}\n".to_owned(),
            }),
            End::Declined => Err(OrderError::Declined),
            End::Panics => panic!("as it should"),
            End::Hangs => pending().await,
        }
    }
}

/// Handles a click on "buy".
#[distributed_lock(key = "order", ttl = "20s", wait = wait, replay = "24h", pool = pool)]
async fn buy(pool: &LockPool, shop: &Shop, end: End, wait: Duration) -> Result<Order, OrderError> {
    shop.order(end).await
}

/// Clicks on "buy", and does not wait if another click is being processed.
async fn click(pool: &LockPool, shop: &Shop, end: End) -> Result<Order, OrderError> {
    buy(pool, shop, end, Duration::ZERO).await
}

/// Clicks on "buy", and waits while another click is being processed.
async fn patient_click(pool: &LockPool, shop: &Shop) -> Result<Order, OrderError> {
    buy(pool, shop, End::Paid, HANG).await
}

/// Clicks on "buy", with a builder instead of the attribute.
async fn click_by_hand(pool: &LockPool, shop: &Shop) -> Result<Order, OrderError> {
    let request = pool.lock("order").ttl(TTL).wait(HANG);
    request.run_replayed(DAY, shop.order(End::Paid)).await?
}

fn order(number: u32) -> Order {
    Order {
        number,
        note: "1 \"kettle\": \u{fc}\n".to_owned(),
    }
}
