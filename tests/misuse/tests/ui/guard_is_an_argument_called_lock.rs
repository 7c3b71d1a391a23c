use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>", ttl = "10s", guard = lock)]
async fn create(id: u64, lock: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
