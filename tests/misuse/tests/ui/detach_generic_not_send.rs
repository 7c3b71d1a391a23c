use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "order", ttl = "10s", detach)]
async fn create<T: 'static>(cart: T) -> Result<(), LockError> {
    drop(cart);
    Ok(())
}

fn main() {}
