use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "order:order_id", ttl = "10s")]
async fn create(order_id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
