use leasehold::{LockError, distributed_lock};

#[tokio::main]
#[distributed_lock(key = "order", ttl = "10s")]
async fn main() -> Result<(), LockError> {
    Ok(())
}
