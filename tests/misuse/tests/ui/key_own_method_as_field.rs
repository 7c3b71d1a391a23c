use leasehold::{LockError, distributed_lock};

struct Order(u64);

impl Order {
    fn id(&self) -> u64 {
        self.0
    }
}

#[distributed_lock(key = "order:<order.id>", ttl = "10s")]
async fn create(order: Order) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
