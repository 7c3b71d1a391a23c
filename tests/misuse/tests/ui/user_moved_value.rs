use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>", ttl = "10s")]
async fn create(id: String) -> Result<usize, LockError> {
    drop(id);
    Ok(id.len())
}

fn main() {}
