use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>", ttl = "10s")]
extern "C" fn create(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
