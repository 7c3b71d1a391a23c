#![deny(unused_mut)]
use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>", ttl = "10s")]
pub async fn create(mut id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
