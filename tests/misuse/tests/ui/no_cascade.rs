use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "order:<oder>", ttl = "10s")]
async fn create(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

async fn caller() -> u64 {
    create(1).await.unwrap_or_default()
}

fn main() {}
