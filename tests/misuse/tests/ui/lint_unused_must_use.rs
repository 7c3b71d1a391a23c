#![deny(unused_must_use)]
use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "order", ttl = "10s")]
async fn create() -> Result<(), LockError> {
    std::fs::remove_file("x");
    Ok(())
}

fn main() {}
