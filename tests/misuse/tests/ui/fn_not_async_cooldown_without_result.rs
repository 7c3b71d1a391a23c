use leasehold::distributed_lock;

type Answer = u64;

#[distributed_lock(key = "order:<id>", ttl = "10s", cooldown = "3s", on_error = |_| 0)]
fn create(id: u64) -> Answer {
    id
}

fn main() {}
