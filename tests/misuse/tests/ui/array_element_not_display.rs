use leasehold::{LockError, distributed_lock};

struct Account;

#[distributed_lock(key = ["account:<from>", "account:<to>"], ttl = "10s")]
async fn transfer(from: u64, to: Account) -> Result<(), LockError> {
    Ok(())
}

fn main() {}
