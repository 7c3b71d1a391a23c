use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = r#"format!("order:{id}")"#, ttl = "10s")]
async fn create(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
