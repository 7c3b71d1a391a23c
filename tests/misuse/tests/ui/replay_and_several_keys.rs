use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = ["account:<from>", "account:<to>"], ttl = "10s", replay = "24h")]
async fn transfer(from: u64, to: u64) -> Result<u64, LockError> {
    Ok(from + to)
}

fn main() {}
