use leasehold::distributed_lock;

struct Order;

#[distributed_lock(key = "order", ttl = "10s")]
impl Order {
    async fn create(&self) {}
}

fn main() {}
