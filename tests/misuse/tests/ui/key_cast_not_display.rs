use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = &id as *const u64, ttl = "10s")]
async fn create(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
