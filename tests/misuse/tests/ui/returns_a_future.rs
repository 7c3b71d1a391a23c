use std::future::Future;

use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>", ttl = "10s")]
async fn create(id: u64) -> Result<impl Future<Output = u64>, LockError> {
    Ok(async move { id })
}

fn main() {}
