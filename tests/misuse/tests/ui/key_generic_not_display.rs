use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>", ttl = "10s")]
async fn create<T>(id: T) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
