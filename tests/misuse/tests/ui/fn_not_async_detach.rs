use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>", ttl = "10s", detach)]
fn create(id: &u64) -> Result<(), LockError> {
    drop(id);
    Ok(())
}

fn main() {}
