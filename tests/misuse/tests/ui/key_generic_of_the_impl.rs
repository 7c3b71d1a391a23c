use leasehold::{LockError, distributed_lock};

struct Shop<T>(T);

impl<T> Shop<T> {
    #[distributed_lock(key = "order:<id>", ttl = "10s")]
    async fn create(&self, id: T) -> Result<(), LockError> {
        Ok(())
    }
}

fn main() {}
