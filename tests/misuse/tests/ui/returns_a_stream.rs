use leasehold::{LockError, distributed_lock};

trait Stream {
    type Item;
}
impl Stream for u64 {
    type Item = u64;
}

#[distributed_lock(key = "day:<day>", ttl = "10s")]
async fn export(day: u64) -> Result<impl Stream<Item = u64>, LockError> {
    Ok(day)
}

fn main() {}
