use leasehold::distributed_lock;

#[distributed_lock(key = "order", ttl = "10s")]
struct Order;

fn main() {}
