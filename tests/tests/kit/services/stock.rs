//! Stock that is never oversold, and a catalog with readers and a writer.

use std::sync::Arc;

use leasehold::testing::{Kit, Point};
use leasehold::{LockError, distributed_lock, is_held};

use super::{Table, finish, round_trip};
use crate::{is_contended, is_lost, secs};

#[derive(Debug, PartialEq)]
enum StockError {
    SoldOut,
    Busy,
    Lock(LockError),
}

impl From<LockError> for StockError {
    fn from(error: LockError) -> Self {
        if error.is_contention() {
            Self::Busy
        } else {
            Self::Lock(error)
        }
    }
}

struct Stock(Table<i64>);

impl Stock {
    fn of(pieces: i64) -> Arc<Self> {
        Arc::new(Self(Table::new(pieces)))
    }

    #[distributed_lock(key = "item:<sku>", ttl = "5s", wait = "5s")]
    async fn sell(&self, sku: &str) -> Result<i64, StockError> {
        let left = *self.0.rows();
        round_trip().await;
        if left == 0 {
            return Err(StockError::SoldOut);
        }
        assert!(is_held(&format!("item:{sku}")));
        *self.0.rows() = left - 1;
        Ok(left - 1)
    }
}

struct Catalog(Table<Vec<String>>);

impl Catalog {
    #[distributed_lock(key = "catalog", ttl = "10s", shared)]
    async fn read(&self) -> Result<usize, LockError> {
        round_trip().await;
        Ok(self.0.rows().len())
    }

    #[distributed_lock(key = "catalog", ttl = "10s", wait = "5s")]
    async fn import(&self, rows: &[&str]) -> Result<(), LockError> {
        self.0.rows().clear();
        round_trip().await;
        self.0
            .rows()
            .extend(rows.iter().map(|row| (*row).to_owned()));
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn twenty_buyers_get_five_pieces() {
    let (kit, stock) = (Kit::new(), Stock::of(5));
    let sold = kit.scope(async {
        let buyers: Vec<_> = (0..20)
            .map(|_| {
                let stock = Arc::clone(&stock);
                leasehold::spawn(async move { stock.sell("kettle").await })
            })
            .collect();
        let mut sold = 0;
        for buyer in buyers {
            match buyer.await.expect("no panic") {
                Ok(_) => sold += 1,
                Err(error) => assert_eq!(error, StockError::SoldOut),
            }
        }
        sold
    });
    assert_eq!(sold.await, 5);
    assert_eq!(*stock.0.rows(), 0);
    assert_eq!(kit.history().grants(), 20);
    finish(&kit, "twenty_buyers_get_five_pieces");
}

#[tokio::test(start_paused = true)]
async fn a_buyer_waits_for_another_process() {
    let (kit, stock) = (Kit::new(), Stock::of(1));
    let _other = kit.hold("item:kettle").releases_after(secs(3)).await;
    assert_eq!(kit.scope(stock.sell("kettle")).await, Ok(0));
    finish(&kit, "a_buyer_waits_for_another_process");
}

#[tokio::test(start_paused = true)]
async fn a_buyer_is_refused_while_the_item_is_busy() {
    let (kit, stock) = (Kit::new(), Stock::of(1));
    let _other = kit.hold("item:kettle").await;
    assert_eq!(kit.scope(stock.sell("kettle")).await, Err(StockError::Busy));
    assert_eq!(*stock.0.rows(), 1);
    finish(&kit, "a_buyer_is_refused_while_the_item_is_busy");
}

#[tokio::test(start_paused = true)]
async fn a_buyer_of_a_stalled_process_sells_nothing() {
    let (kit, stock) = (Kit::new(), Stock::of(1));
    kit.lose_when("item:kettle", Point::AfterPolls(1));
    let ended = kit.scope(stock.sell("kettle")).await;
    assert!(matches!(ended, Err(StockError::Lock(error)) if error.is_lost()));
    assert_eq!(*stock.0.rows(), 1);
    finish(&kit, "a_buyer_of_a_stalled_process_sells_nothing");
}

#[tokio::test(start_paused = true)]
async fn a_buyer_gets_the_lock_of_a_dead_buyer() {
    let (kit, stock) = (Kit::new(), Stock::of(1));
    let other = kit.hold("item:kettle").ttl(secs(4)).await;
    other.expire();
    assert_eq!(kit.scope(stock.sell("kettle")).await, Ok(0));
    finish(&kit, "a_buyer_gets_the_lock_of_a_dead_buyer");
}

#[tokio::test(start_paused = true)]
async fn readers_read_concurrently() {
    let (kit, catalog) = (Kit::new(), Catalog(Table::default()));
    let _other = kit.hold("catalog").shared().await;
    let both = async { tokio::join!(catalog.read(), catalog.read()) };
    assert_eq!(kit.scope(both).await, (Ok(0), Ok(0)));
    finish(&kit, "readers_read_concurrently");
}

#[tokio::test(start_paused = true)]
async fn no_reader_sees_a_half_import() {
    let (kit, catalog) = (Kit::new(), Catalog(Table::new(vec!["old".to_owned()])));
    let both = async { tokio::join!(catalog.import(&["a", "b"]), catalog.read()) };
    let (imported, read) = kit.scope(both).await;
    assert!(imported.is_ok() && is_contended(&read));
    assert_eq!(kit.scope(catalog.read()).await, Ok(2));
    finish(&kit, "no_reader_sees_a_half_import");
}

#[tokio::test(start_paused = true)]
async fn an_import_waits_for_readers() {
    let (kit, catalog) = (Kit::new(), Catalog(Table::default()));
    let _reader = kit.hold("catalog").shared().releases_after(secs(1)).await;
    assert_eq!(kit.scope(catalog.import(&["a"])).await, Ok(()));
    kit.lose_when("catalog", Point::AfterPolls(1));
    assert!(is_lost(&kit.scope(catalog.read()).await));
    finish(&kit, "an_import_waits_for_readers");
}
