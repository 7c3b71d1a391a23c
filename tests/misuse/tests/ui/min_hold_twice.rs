use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "job:sweep", ttl = "1m", min_hold = "10s", min_hold = "30s")]
async fn sweep() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
