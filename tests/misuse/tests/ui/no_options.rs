use leasehold::{LockError, distributed_lock};

#[distributed_lock]
async fn create(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
