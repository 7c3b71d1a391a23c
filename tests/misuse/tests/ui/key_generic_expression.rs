use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = id, ttl = "10s")]
async fn create<T>(id: T) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
