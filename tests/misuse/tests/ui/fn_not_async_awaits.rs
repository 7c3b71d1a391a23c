use leasehold::{LockError, distributed_lock};

async fn charge(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[distributed_lock(key = "order:<id>", ttl = "10s")]
fn create(id: u64) -> Result<u64, LockError> {
    charge(id).await
}

fn main() {}
