use leasehold::{LockError, distributed_lock};

#[mockall::automock]
pub trait Refunds {
    #[distributed_lock(key = "refund:<id>", ttl = "10s")]
    async fn refund(&self, id: u64) -> Result<u64, LockError> {
        Ok(id)
    }
}

fn main() {}
