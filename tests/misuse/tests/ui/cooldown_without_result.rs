use leasehold::distributed_lock;

#[distributed_lock(key = "order:<id>", ttl = "10s", cooldown = "3s", on_error = drop)]
async fn create(id: u64) {
    drop(id);
}

fn main() {}
