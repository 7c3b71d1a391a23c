use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "job:sweep", ttl = "1m", lockAtLeastFor = "30s")]
async fn sweep() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
