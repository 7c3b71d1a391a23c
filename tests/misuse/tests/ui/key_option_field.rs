use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "order:<pair.0>", ttl = "10s")]
async fn create(pair: (Option<u64>, u64)) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
