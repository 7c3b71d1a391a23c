use leasehold::distributed_lock;

#[distributed_lock(key = "order:<id>", ttl = "10s")]
async fn create<R>(id: u64, answer: R) -> R {
    answer
}

fn main() {}
