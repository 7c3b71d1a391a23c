use leasehold::distributed_lock;

#[distributed_lock(key = "order:<id>", ttl = "10s")]
fn create(id: u64) -> u64 {
    id
}

fn main() {}
