use leasehold::{LockError, distributed_lock};

struct Order<T> {
    id: T,
}

#[distributed_lock(key = "order:<order.id>", ttl = "10s")]
async fn create<T>(order: Order<T>) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
