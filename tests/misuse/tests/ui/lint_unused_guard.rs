#![deny(unused_variables)]
use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "order", ttl = "10s", guard = lock)]
async fn create() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
