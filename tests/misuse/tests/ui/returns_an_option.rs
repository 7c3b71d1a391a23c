use leasehold::distributed_lock;

#[distributed_lock(key = "order:<id>", ttl = "10s")]
async fn create(id: u64) -> Option<u64> {
    Some(id)
}

fn main() {}
