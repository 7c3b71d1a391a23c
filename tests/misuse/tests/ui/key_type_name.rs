use leasehold::{LockError, distributed_lock};

struct Kind;

#[distributed_lock(key = "order:<Kind>", ttl = "10s")]
async fn create(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
