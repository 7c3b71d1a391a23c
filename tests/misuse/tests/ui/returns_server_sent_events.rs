use leasehold::{LockError, distributed_lock};

struct Sse<S>(S);

#[distributed_lock(key = "shop:<shop>", ttl = "10s")]
async fn watch(shop: u64) -> Result<Sse<impl Iterator<Item = u64>>, LockError> {
    Ok(Sse(0..shop))
}

fn main() {}
