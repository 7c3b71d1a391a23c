use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "<id>-<line>", ttl = "10s")]
async fn create(id: u64, line: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
