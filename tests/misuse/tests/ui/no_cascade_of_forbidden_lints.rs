#![forbid(unused_variables)]
use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>", tll = "10s")]
pub async fn create(id: u64, _note: String) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
