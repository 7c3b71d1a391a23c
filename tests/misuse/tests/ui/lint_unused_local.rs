#![deny(unused_variables)]
use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>", ttl = "10s")]
async fn create(id: u64) -> Result<(), LockError> {
    let twice = id * 2;
    Ok(())
}

fn main() {}
