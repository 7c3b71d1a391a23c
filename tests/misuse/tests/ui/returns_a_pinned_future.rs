use std::future::Future;
use std::pin::Pin;

use leasehold::distributed_lock;

#[distributed_lock(key = "order:<id>", ttl = "10s", on_error = |_| Box::pin(async { 0 }))]
async fn create(id: u64) -> Pin<Box<dyn Future<Output = u64> + Send>> {
    Box::pin(async move { id })
}

fn main() {}
