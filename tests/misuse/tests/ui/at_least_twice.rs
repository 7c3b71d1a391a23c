use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "job:sweep", ttl = "1m", at_least = "10s", at_least = "30s")]
async fn sweep() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
