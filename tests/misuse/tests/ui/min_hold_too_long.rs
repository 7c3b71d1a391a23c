use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "job:sweep", ttl = "24h", watchdog, min_hold = "25h")]
async fn sweep() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
