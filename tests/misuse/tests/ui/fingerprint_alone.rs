use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>", ttl = "10s", fingerprint = cart)]
async fn create(id: u64, cart: String) -> Result<u64, LockError> {
    drop(cart);
    Ok(id)
}

fn main() {}
