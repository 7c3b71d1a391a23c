use leasehold::distributed_lock;

type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;

#[distributed_lock(key = "order:<id>", ttl = "10s", on_error = |_| None)]
async fn create(id: u64) -> Option<BoxFuture<'static, u64>> {
    Some(Box::pin(async move { id }))
}

fn main() {}
