use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "o:<oder>:{id}", tll = "9s", ttl = 5, guard = id, on_lost = "x")]
async fn create(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
