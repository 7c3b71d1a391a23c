//! A catalog with many readers and few writers. Readers share the lock, and a writer has it alone.
//!
//! A price list consists of two related numbers. A reader between the writes of the two numbers
//! would see a pair that never existed.
//!
//! ```sh
//! cargo run --example read_mostly_catalog
//! ```

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use leasehold::{LockError, distributed_lock};
use tokio::task::JoinSet;

const READERS: usize = 16;
const WRITERS: u64 = 3;

#[derive(Default)]
struct Catalog {
    net: AtomicU64,
    gross: AtomicU64,
    /// Current number of readers inside the lock. `most` is the maximum so far.
    inside: AtomicUsize,
    most: AtomicUsize,
}

impl Catalog {
    #[distributed_lock(key = "catalog", ttl = "5s", wait = "30s", shared)]
    async fn read(&self) -> Result<(u64, u64), LockError> {
        let inside = self.inside.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(inside, Ordering::Relaxed);
        let net = self.net.load(Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(5)).await;
        let gross = self.gross.load(Ordering::Relaxed);
        self.inside.fetch_sub(1, Ordering::Relaxed);
        Ok((net, gross))
    }

    #[distributed_lock(key = "catalog", ttl = "5s", wait = "30s")]
    async fn write(&self, net: u64) -> Result<(), LockError> {
        self.net.store(net, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(5)).await;
        self.gross.store(net * 2, Ordering::Relaxed);
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    leasehold::init("memory://").await?;
    let catalog = Arc::new(Catalog::default());
    let mut calls = JoinSet::new();
    for _ in 0..READERS {
        let catalog = Arc::clone(&catalog);
        calls.spawn(async move {
            for _ in 0..10 {
                let (net, gross) = catalog.read().await?;
                assert_eq!(gross, net * 2, "a reader saw half of a change");
            }
            Ok::<_, LockError>(())
        });
    }
    for writer in 1..=WRITERS {
        let catalog = Arc::clone(&catalog);
        calls.spawn(async move { catalog.write(writer * 100).await });
    }
    while let Some(call) = calls.join_next().await {
        call??;
    }
    let most = catalog.most.load(Ordering::Relaxed);
    println!(
        "{} reads beside {WRITERS} writes, up to {most} readers at once, and none saw half of a change",
        READERS * 10
    );
    leasehold::shutdown(Duration::from_secs(5)).await;
    Ok(())
}
