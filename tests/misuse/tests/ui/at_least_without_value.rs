use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "job:sweep", ttl = "1m", at_least)]
async fn sweep() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
