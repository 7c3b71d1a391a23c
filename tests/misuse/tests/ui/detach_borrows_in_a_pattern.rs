use leasehold::{LockError, distributed_lock};

#[distributed_lock(key = "order:<id>", ttl = "10s", detach)]
async fn create<'a>((id, cart): (u64, Option<&'a str>)) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
