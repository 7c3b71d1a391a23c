use leasehold::{LockError, distributed_lock};

struct Shop {
    region: u64,
}

impl Shop {
    #[distributed_lock(key = "shop:${self.region}", ttl = "10s")]
    async fn open(&self) -> Result<(), LockError> {
        Ok(())
    }
}

fn main() {}
