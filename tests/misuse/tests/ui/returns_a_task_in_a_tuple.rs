use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>", ttl = "10s")]
async fn create(id: u64) -> Result<(u64, Vec<tokio::task::JoinHandle<u64>>), LockError> {
    Ok((id, vec![tokio::spawn(async move { id })]))
}

fn main() {}
