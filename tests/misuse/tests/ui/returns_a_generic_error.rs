use leasehold::distributed_lock;

#[distributed_lock(key = "order:<id>", ttl = "10s")]
async fn create<E>(id: u64) -> Result<(), E> {
    Ok(())
}

fn main() {}
