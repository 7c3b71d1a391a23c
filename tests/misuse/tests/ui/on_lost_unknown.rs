use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>", ttl = "10s", on_lost = "abort")]
async fn create(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
