use leasehold::distributed_lock;

#[distributed_lock(key = "order:<id>", ttl = "10s", on_error = |_| 5)]
async fn create(id: u64) -> String {
    String::new()
}

fn main() {}
