use leasehold::distributed_lock;

#[distributed_lock(key = "a", ttl = "10s", on_error = drop)]
fn create() -> std::pin::Pin<Box<dyn Future<Output = ()>>> {
    println!("not locked");
    Box::pin(async move {})
}

fn main() {}
