use leasehold::{LockError, distributed_lock};

struct Shop;

impl Shop {
    #[distributed_lock(key = "order:<id>", ttl = "10s", detach)]
    async fn create(&self, id: u64) -> Result<(), LockError> {
        Ok(())
    }
}

fn main() {}
