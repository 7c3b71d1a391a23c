#![deny(unused_must_use)]
use leasehold::{LockError, distributed_lock};

#[must_use]
#[distributed_lock(key = "order", ttl = "10s", on_error = |_: LockError| 0)]
pub async fn create() -> u8 {
    7
}
pub async fn caller() {
    create().await;
}

fn main() {}
