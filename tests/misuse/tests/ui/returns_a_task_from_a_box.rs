use std::pin::Pin;

use leasehold::{LockError, distributed_lock};
use tokio::task::JoinHandle;

#[distributed_lock(key = "order:<id>", ttl = "10s")]
fn create(id: u64) -> Pin<Box<dyn Future<Output = Result<JoinHandle<u64>, LockError>>>> {
    Box::pin(async move { Ok(tokio::spawn(async move { id })) })
}

fn main() {}
