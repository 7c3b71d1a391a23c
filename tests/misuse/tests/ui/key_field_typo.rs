use leasehold::{LockError, distributed_lock};

struct Order {
    id: u64,
}

#[distributed_lock(key = "order:<order.idd>", ttl = "10s")]
async fn create(order: Order) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
