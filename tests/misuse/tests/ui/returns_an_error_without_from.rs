use leasehold::distributed_lock;

struct OrderError;
type Answer = Result<u64, OrderError>;

#[distributed_lock(key = "order:<id>", ttl = "10s")]
async fn create(id: u64) -> Answer {
    Ok(id)
}

fn main() {}
