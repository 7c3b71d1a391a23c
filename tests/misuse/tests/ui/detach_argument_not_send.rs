use std::rc::Rc;

use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>", ttl = "10s", detach)]
async fn create(id: u64, cart: Rc<u64>) -> Result<(), LockError> {
    drop(cart);
    Ok(())
}

fn main() {}
