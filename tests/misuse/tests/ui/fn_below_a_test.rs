use leasehold::distributed_lock;

#[tokio::test]
#[distributed_lock(key = "order", ttl = "10s", on_error = drop)]
async fn create() {}

fn main() {}
