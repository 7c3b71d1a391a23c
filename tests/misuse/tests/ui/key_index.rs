use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "order:<ids[0]>", ttl = "10s")]
async fn create(ids: [u64; 2]) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
