use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "order:<items.len>", ttl = "10s")]
async fn create(items: Vec<u64>) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
