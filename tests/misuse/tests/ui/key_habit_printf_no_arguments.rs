use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "order:%d", ttl = "10s")]
async fn create() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
