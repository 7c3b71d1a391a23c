use leasehold::{LockError, distributed_lock};

type BoxStream<'a, T> = Box<dyn Iterator<Item = T> + Send + 'a>;

#[distributed_lock(key = "day:<day>", ttl = "10s")]
async fn export(day: u64) -> Result<BoxStream<'static, u64>, LockError> {
    Ok(Box::new(0..day))
}

fn main() {}
