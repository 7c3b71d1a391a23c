use leasehold::{LockError, distributed_lock};

struct Order;

#[distributed_lock(key = "order:<id>", ttl = "10s", replay = "1h")]
fn create(id: u64) -> Result<Order, LockError> {
    drop(id);
    Ok(Order)
}

fn main() {}
