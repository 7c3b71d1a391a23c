use leasehold::distributed_lock;

#[distributed_lock(key = "order:<name>", ttl = "10s", on_error = |_| name)]
async fn create(name: String) -> String {
    name
}

fn main() {}
