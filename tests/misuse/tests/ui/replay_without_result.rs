use leasehold::distributed_lock;

#[distributed_lock(key = "order:<id>", ttl = "10s", replay = "24h", on_error = drop)]
async fn create(id: u64) {
    drop(id);
}

fn main() {}
