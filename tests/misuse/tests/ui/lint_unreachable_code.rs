#![deny(unreachable_code)]
use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "order", ttl = "10s")]
pub async fn create() -> Result<(), LockError> {
    return Ok(());
    println!("late");
}

fn main() {}
