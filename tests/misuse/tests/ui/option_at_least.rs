use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>", ttl = "10s", at_least = "3s")]
async fn create(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
