use leasehold::{LockError, distributed_lock};

struct Order;

#[distributed_lock(key = "order:<order>", ttl = "10s")]
async fn create(order: Order) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
