use leasehold::{LockError, distributed_lock};

#[distributed_lock(
    key = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q"],
    ttl = "10s"
)]
async fn count() -> Result<(), LockError> {
    Ok(())
}

fn main() {}
