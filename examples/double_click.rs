//! A payment that is made once although the customer clicks twice, even if the second click comes
//! late.
//!
//! The lock alone refuses a second click only while the first one is processed. `cooldown` keeps
//! the lock for a while after `Ok`, so a later click is refused as well. After an error the lock is
//! released at once, and the customer can try again.
//!
//! ```sh
//! cargo run --example double_click
//! ```

use std::error::Error;
use std::time::Duration;

use leasehold::{LockError, distributed_lock};

#[derive(Debug, thiserror::Error)]
enum PaymentError {
    #[error("the card was declined")]
    Declined,
    #[error("one click is enough: {0}")]
    Lock(#[from] LockError),
}

#[distributed_lock(key = "payment:<order>", ttl = "10s", cooldown = "500ms")]
async fn pay(order: u32, card: &str) -> Result<String, PaymentError> {
    tokio::time::sleep(Duration::from_millis(100)).await;
    if card == "expired" {
        return Err(PaymentError::Declined);
    }
    Ok(format!("order {order} is paid"))
}

async fn click(card: &str) -> bool {
    let paid = pay(42, card).await;
    match &paid {
        Ok(paid) => println!("{paid}"),
        Err(error) => println!("{error}"),
    }
    paid.is_ok()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    leasehold::init("memory://").await?; // in production: "redis://127.0.0.1/"
    assert!(!click("expired").await, "declined");
    // After the failure the lock is free. Of two simultaneous clicks, only the first one gets it.
    let (first, second) = tokio::join!(click("good"), click("good"));
    assert!(first && !second);
    assert!(!click("good").await, "the late click is refused too");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(click("good").await, "a second payment, meant as such");
    leasehold::shutdown(Duration::from_secs(5)).await;
    Ok(())
}
