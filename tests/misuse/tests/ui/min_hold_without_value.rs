use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "job:sweep", ttl = "1m", min_hold)]
async fn sweep() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
