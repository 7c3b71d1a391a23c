use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "<tenant>:order:{{id}}", ttl = "10s")]
async fn create(tenant: u64, id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
