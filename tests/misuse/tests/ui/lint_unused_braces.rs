#![deny(unused_braces)]
use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>", ttl = "10s")]
pub async fn create(id: u64) -> Result<u64, LockError> {
    let more = id.max({ 7 });
    Ok(more)
}

fn main() {}
