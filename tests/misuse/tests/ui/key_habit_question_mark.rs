use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "order:?", ttl = "10s")]
async fn create(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
