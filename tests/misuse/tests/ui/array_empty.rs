use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = [], ttl = "10s")]
async fn transfer(from: u64, to: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
