//! One of several instances does the billing. When it stops, another instance follows.
//!
//! Each instance calls `lead`, which waits until the instance has the lock. The body then works in
//! a loop. It is dropped if the lease is lost, or if the pool shuts down.
//!
//! ```sh
//! cargo run --example leader
//! ```

use std::error::Error;
use std::time::Duration;

use leasehold::{LockError, LockHandle, LockPool};
use tokio::time::sleep;

/// The lock store. Two pools on this store represent two processes. In production, use
/// `redis://127.0.0.1/`.
const STORE: &str = "memory://billing";

async fn bill(instance: u32, lock: LockHandle) -> Result<(), LockError> {
    println!("instance {instance} leads");
    for invoice in 1..=1_000 {
        lock.check()?; // before a step that cannot be taken back
        println!("instance {instance} sends invoice {invoice}");
        sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

async fn run(instance: u32, pool: LockPool) {
    let request = pool.lock("leader:billing").ttl(Duration::from_secs(5));
    match request.lead(|lock| bill(instance, lock)).await {
        Ok(billed) => println!("instance {instance} has finished: {billed:?}"),
        Err(LockError::ShuttingDown) => println!("instance {instance} shuts down"),
        Err(error) => println!("instance {instance} cannot lead: {error}"),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let one = LockPool::connect(STORE).await?;
    let two = LockPool::connect(STORE).await?;
    let first = tokio::spawn(run(1, one.clone()));
    while !one.inspect("leader:billing").await?.is_taken() {
        sleep(Duration::from_millis(10)).await;
    }
    let second = tokio::spawn(run(2, two.clone()));
    sleep(Duration::from_millis(300)).await;
    if let Some(leader) = two.inspect("leader:billing").await?.holders.first() {
        println!("the leader is {:?}", leader.owner);
    }

    one.shutdown(Duration::from_secs(5)).await; // a deploy stops the first instance
    first.await?;
    sleep(Duration::from_millis(300)).await;
    two.shutdown(Duration::from_secs(5)).await;
    second.await?;
    Ok(())
}
