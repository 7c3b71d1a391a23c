#![deny(dead_code)]
use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "order", ttl = "10s")]
async fn never_called() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
