//! A service whose unit tests, in `tests.rs`, need no server and run in parallel.
//!
//! ```sh
//! cargo test -p leasehold-services --bin tested
//! ```
//!
//! The program needs `leasehold` and `tokio`. Its tests also need the feature `testing` of
//! `leasehold` and the feature `test-util` of `tokio`.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::error::Error;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use leasehold::{LockError, distributed_lock};

/// Coupons, each with the customer who has redeemed it.
#[derive(Debug, Default)]
struct Coupons {
    redeemed: Mutex<HashMap<String, String>>,
}

impl Coupons {
    /// Gives a coupon to the first customer who redeems it. Returns the name of this customer, also
    /// to later customers.
    #[distributed_lock(key = "coupon:<code>", ttl = "10s")]
    async fn redeem(&self, code: &str, customer: &str) -> Result<String, LockError> {
        let first = self.owner(code);
        tokio::task::yield_now().await; // a real service queries its database here
        let owner = first.unwrap_or_else(|| customer.to_owned());
        let mut redeemed = self.redeemed.lock().unwrap_or_else(PoisonError::into_inner);
        redeemed.insert(code.to_owned(), owner.clone());
        Ok(owner)
    }

    fn owner(&self, code: &str) -> Option<String> {
        let redeemed = self.redeemed.lock().unwrap_or_else(PoisonError::into_inner);
        redeemed.get(code).cloned()
    }
}

/// Returns the answer to a client: an HTTP status and a text.
fn answer(redeemed: Result<String, LockError>) -> (u16, String) {
    match redeemed {
        Ok(owner) => (200, format!("it belongs to {owner}")),
        Err(error) => (error.http_status(), error.public_message().to_owned()),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    leasehold::init("memory://").await?; // in production: "redis://127.0.0.1/"
    let coupons = Coupons::default();
    println!("{:?}", answer(coupons.redeem("SPRING", "ada").await));
    println!("{:?}", answer(coupons.redeem("SPRING", "grace").await));
    leasehold::shutdown(Duration::from_secs(5)).await;
    Ok(())
}
