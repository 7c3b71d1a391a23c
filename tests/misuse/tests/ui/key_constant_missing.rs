use leasehold::{LockError, distributed_lock};

struct Shop;

impl Shop {
    #[distributed_lock(key = "<Self::KIND>:<id>", ttl = "10s")]
    async fn create(&self, id: u64) -> Result<(), LockError> {
        Ok(())
    }
}

fn main() {}
