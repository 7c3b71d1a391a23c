use leasehold::{LockError, distributed_lock};
use mockall::automock;

pub struct Orders;

#[automock]
impl Orders {
    #[distributed_lock(key = "order:<id>", ttl = "10s")]
    pub async fn create(&self, id: u64) -> Result<u64, LockError> {
        Ok(id)
    }
}

fn main() {}
