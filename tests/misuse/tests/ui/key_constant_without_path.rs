use leasehold::{LockError, distributed_lock};

const KIND: &str = "web";

#[distributed_lock(key = "<KIND>:order:<id>", ttl = "10s")]
async fn create(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
