//! At most three calls at a time, over all processes: the limit of a partner's service.
//!
//! ```sh
//! cargo run --example rate_of_n
//! ```

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use leasehold::{LockError, distributed_lock};
use tokio::task::JoinSet;

/// Stands for the service of a partner, which refuses a fourth request while three requests are
/// running.
#[derive(Default)]
struct Partner {
    running: AtomicUsize,
    refused: AtomicUsize,
    served: AtomicUsize,
}

impl Partner {
    async fn request(&self) {
        if self.running.fetch_add(1, Ordering::Relaxed) < 3 {
            tokio::time::sleep(Duration::from_millis(5)).await;
            self.served.fetch_add(1, Ordering::Relaxed);
        } else {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        self.running.fetch_sub(1, Ordering::Relaxed);
    }
}

#[distributed_lock(key = "partner", ttl = "10s", wait = "30s", permits = 3)]
async fn ask(partner: &Partner) -> Result<(), LockError> {
    partner.request().await;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    leasehold::init("memory://").await?;
    let partner = Arc::new(Partner::default());
    let mut calls = JoinSet::new();
    for _ in 0..30 {
        let partner = Arc::clone(&partner);
        calls.spawn(async move { ask(&partner).await });
    }
    while let Some(call) = calls.join_next().await {
        call??;
    }
    let served = partner.served.load(Ordering::Relaxed);
    let refused = partner.refused.load(Ordering::Relaxed);
    assert_eq!((served, refused), (30, 0));
    println!("{served} requests served, {refused} refused: never more than three at a time");
    leasehold::shutdown(Duration::from_secs(5)).await;
    Ok(())
}
