use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>", ttl = "10s")]
async fn create(id: impl Clone) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
