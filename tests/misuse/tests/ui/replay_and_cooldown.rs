use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>", ttl = "10s", replay = "24h", cooldown = "3s")]
async fn create(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {}
