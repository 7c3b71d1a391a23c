//! The attribute on a method in a trait's `impl` block, with a field of `self` in the key.
//!
//! Each `Warehouse` has a separate lock pool, instead of one pool for the whole program.
//!
//! ```sh
//! cargo run --example trait_method
//! ```

use std::error::Error;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use leasehold::{LockError, LockPool, distributed_lock};

trait Inventory {
    async fn take(&self, sku: &str, quantity: u32) -> Result<u32, LockError>;
}

/// A warehouse in one region. The field `left`, the number of items, stands for a row of a database
/// table that `take` reads and writes in two steps.
struct Warehouse {
    region: &'static str,
    locks: LockPool,
    left: AtomicU32,
}

impl Inventory for Warehouse {
    #[distributed_lock(
        key = "stock:<self.region>:<sku>",
        ttl = "10s",
        wait = "5s",
        pool = self.locks
    )]
    async fn take(&self, sku: &str, quantity: u32) -> Result<u32, LockError> {
        let left = self.left.load(Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(10)).await;
        let taken = quantity.min(left);
        self.left.store(left - taken, Ordering::Relaxed);
        Ok(taken)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let locks = LockPool::builder()
        .url("memory://") // in production: "redis://127.0.0.1/"
        .namespace("shop")
        .connect()
        .await?;
    let warehouse = Warehouse {
        region: "eu",
        locks: locks.clone(),
        left: AtomicU32::new(10),
    };

    let (a, b, c) = tokio::join!(
        warehouse.take("kettle", 4),
        warehouse.take("kettle", 4),
        warehouse.take("kettle", 4),
    );
    println!(
        "three customers wanted 4 each of 10: they got {}, {} and {}",
        a?, b?, c?
    );
    println!("left: {}", warehouse.left.load(Ordering::Relaxed));

    locks.shutdown(Duration::from_secs(5)).await;
    Ok(())
}
