use leasehold::{LockError, distributed_lock};
use tokio::task::JoinHandle;

#[distributed_lock(key = "order:<id>", ttl = "10s", detach)]
async fn create(id: u64) -> Result<JoinHandle<u64>, LockError> {
    Ok(tokio::spawn(async move { id }))
}

fn main() {}
