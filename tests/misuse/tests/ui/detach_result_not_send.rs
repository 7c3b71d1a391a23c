use std::rc::Rc;

use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "order", ttl = "10s", detach)]
async fn create() -> Result<Rc<u64>, LockError> {
    Ok(Rc::new(7))
}

fn main() {}
