use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>", ttl = "10s")]
fn create(id: u64) -> impl Future<Output = Result<u64, LockError>> {
    async move { Ok(id) }
}

fn main() {}
