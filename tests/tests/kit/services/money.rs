//! Transfers between accounts, and invoice numbers without gaps.

use std::collections::BTreeMap;
use std::sync::Arc;

use leasehold::testing::{Kit, Point};
use leasehold::{LockError, assert_held, distributed_lock};

use super::{Table, finish, round_trip};
use crate::{is_contended, is_lost};

struct Bank(Table<BTreeMap<u64, i64>>);

impl Bank {
    fn new() -> Arc<Self> {
        Arc::new(Self(Table::new(BTreeMap::from([(1, 100), (2, 100)]))))
    }

    #[distributed_lock(key = ["account:<from>", "account:<to>"], ttl = "10s", wait = "5s")]
    async fn transfer(&self, from: u64, to: u64, cents: i64) -> Result<(), LockError> {
        let [has, had] = [from, to].map(|id| self.0.rows()[&id]);
        round_trip().await;
        self.write(from, has - cents);
        self.write(to, had + cents);
        self.charge_fee(from).await
    }

    #[distributed_lock(key = "account:<id>", ttl = "10s", reentrant)]
    async fn charge_fee(&self, id: u64) -> Result<(), LockError> {
        let has = self.0.rows()[&id];
        round_trip().await;
        self.write(id, has - 1);
        Ok(())
    }

    /// Must never run without the account's lock.
    fn write(&self, id: u64, cents: i64) {
        assert_held!(format!("account:{id}"));
        self.0.rows().insert(id, cents);
    }

    fn balances(&self) -> Vec<i64> {
        self.0.rows().values().copied().collect()
    }
}

#[derive(Default)]
struct Invoices(Table<Vec<u32>>);

impl Invoices {
    #[distributed_lock(key = "invoice-number", ttl = "5s", wait = "10s")]
    async fn next(&self) -> Result<u32, LockError> {
        let number = self.0.rows().last().copied().unwrap_or(0) + 1;
        round_trip().await;
        self.0.rows().push(number);
        Ok(number)
    }
}

#[tokio::test(start_paused = true)]
async fn opposite_transfers_wait_for_each_other() {
    let (kit, bank) = (Kit::new(), Bank::new());
    let both = async { tokio::join!(bank.transfer(1, 2, 30), bank.transfer(2, 1, 10)) };
    assert_eq!(kit.scope(both).await, (Ok(()), Ok(())));
    assert_eq!(bank.balances(), [79, 119]);
    finish(&kit, "opposite_transfers_wait_for_each_other");
}

#[tokio::test(start_paused = true)]
async fn a_single_fee_takes_the_lock() {
    let (kit, bank) = (Kit::new(), Bank::new());
    assert_eq!(kit.scope(bank.charge_fee(1)).await, Ok(()));
    let _other = kit.hold("account:1").await;
    assert!(is_contended(&kit.scope(bank.charge_fee(1)).await));
    assert_eq!(bank.balances(), [99, 100]);
    finish(&kit, "a_single_fee_takes_the_lock");
}

#[tokio::test(start_paused = true)]
async fn a_transfer_with_a_lost_lock_moves_nothing() {
    let (kit, bank) = (Kit::new(), Bank::new());
    kit.lose_when("account:2", Point::AfterPolls(1));
    assert!(is_lost(&kit.scope(bank.transfer(1, 2, 30)).await));
    assert_eq!(bank.balances(), [100, 100]);
    finish(&kit, "a_transfer_with_a_lost_lock_moves_nothing");
}

#[tokio::test(start_paused = true)]
async fn ten_invoices_have_ten_numbers() {
    let (kit, invoices) = (Kit::new(), Arc::new(Invoices::default()));
    kit.scope(async {
        let calls: Vec<_> = (0..10)
            .map(|_| {
                let invoices = Arc::clone(&invoices);
                leasehold::spawn(async move { invoices.next().await })
            })
            .collect();
        for call in calls {
            call.await.expect("no panic").expect("it waits");
        }
    })
    .await;
    assert_eq!(*invoices.0.rows(), (1..=10).collect::<Vec<_>>());
    finish(&kit, "ten_invoices_have_ten_numbers");
}

#[tokio::test(start_paused = true)]
async fn a_lost_lock_leaves_no_gap() {
    let (kit, invoices) = (Kit::new(), Invoices::default());
    kit.lose_when("invoice-number", Point::AfterPolls(1));
    assert!(is_lost(&kit.scope(invoices.next()).await));
    assert_eq!(kit.scope(invoices.next()).await, Ok(1));
    finish(&kit, "a_lost_lock_leaves_no_gap");
}
