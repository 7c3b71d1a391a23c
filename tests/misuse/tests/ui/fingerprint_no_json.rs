use leasehold::{LockError, distributed_lock};

struct Cart;

#[distributed_lock(key = "order:<id>", ttl = "10s", replay = "24h", fingerprint = cart)]
async fn create(id: u64, cart: Cart) -> Result<u64, LockError> {
    drop(cart);
    Ok(id)
}

fn main() {}
