use leasehold::{LockError, distributed_lock};

trait Job {
    #[distributed_lock(key = "job", ttl = "10s")]
    async fn run(&self) -> Result<(), LockError>;
}

fn main() {}
