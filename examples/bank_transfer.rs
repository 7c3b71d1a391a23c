//! Transfers between accounts. Each transfer holds the locks of both accounts, without deadlocks.
//!
//! An array of keys is locked as a whole, in sorted order. So transfers in opposite directions do
//! not deadlock. The function `charge`, which takes the fee, locks the account too. It is
//! `reentrant`, so a transfer that already has the account's lock can call it.
//!
//! ```sh
//! cargo run --example bank_transfer
//! ```

use std::error::Error;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use leasehold::{LockError, distributed_lock};

const NAMES: [&str; 3] = ["ada", "grace", "edsger"];
const START: i64 = 100;

/// A table of balances. As with most tables, an addition is a read and a separate write, so it is
/// not atomic without a lock.
struct Bank {
    balances: [AtomicI64; NAMES.len()],
    fees: AtomicI64,
}

impl Bank {
    async fn read(&self, account: usize) -> i64 {
        tokio::time::sleep(Duration::from_millis(1)).await;
        self.balances[account].load(Ordering::Relaxed)
    }

    async fn write(&self, account: usize, balance: i64) {
        tokio::time::sleep(Duration::from_millis(1)).await;
        self.balances[account].store(balance, Ordering::Relaxed);
    }

    #[distributed_lock(key = ["account:<from>", "account:<to>"], ttl = "5s", wait = "30s")]
    async fn transfer(&self, from: usize, to: usize, amount: i64) -> Result<(), LockError> {
        if from == to {
            return Ok(());
        }
        let (before, there) = (self.read(from).await, self.read(to).await);
        self.write(from, before - amount).await;
        self.write(to, there + amount).await;
        self.charge(from).await
    }

    #[distributed_lock(key = "account:<account>", ttl = "5s", wait = "30s", reentrant)]
    async fn charge(&self, account: usize) -> Result<(), LockError> {
        let balance = self.read(account).await;
        self.write(account, balance - 1).await;
        self.fees.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    leasehold::init("memory://").await?; // in production: "redis://127.0.0.1/"
    let bank = Bank {
        balances: [const { AtomicI64::new(START) }; NAMES.len()],
        fees: AtomicI64::new(0),
    };
    // These run at the same time: transfers around the circle of accounts in both directions, one
    // within an account, and a charge.
    for _ in 0..10 {
        tokio::try_join!(
            bank.transfer(0, 1, 5),
            bank.transfer(1, 2, 6),
            bank.transfer(2, 0, 7),
            bank.transfer(0, 2, 8),
            bank.transfer(2, 1, 9),
            bank.transfer(1, 0, 10),
            bank.transfer(1, 1, 11),
            bank.charge(0),
        )?;
    }
    let mut sum = bank.fees.into_inner();
    println!("fees: {sum}");
    for (name, balance) in NAMES.iter().zip(bank.balances) {
        let balance = balance.into_inner();
        println!("{name}: {balance}");
        sum += balance;
    }
    assert_eq!(sum, 3 * START, "all the money is still there");
    leasehold::shutdown(Duration::from_secs(5)).await;
    Ok(())
}
