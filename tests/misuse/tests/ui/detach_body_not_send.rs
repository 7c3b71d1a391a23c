use std::rc::Rc;

use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "order", ttl = "10s", detach)]
async fn create() -> Result<(), LockError> {
    let cart = Rc::new(7);
    std::future::ready(()).await;
    drop(cart);
    Ok(())
}

fn main() {}
