use std::path::{Path, PathBuf};
use std::thread;

use leasehold_tests::scratch::Scratch;
use leasehold_tests::wait;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions as _, Connection as _};

use super::harness::provider::Charge;
use super::harness::service::{Ended, Service};
use super::harness::{LIMIT, Surroundings};

const PROGRAM: &str = env!("CARGO_BIN_EXE_repositories");
const KEY: &str = "lock:stock:eu:kettle";
/// Pattern of the keys on Redis that store the queues. Such a key exists while a process waits for
/// a lock.
const QUEUE: &str = "lock:%leasehold:queue:*";

/// A database with two kettles, and the servers for the program that sells them.
struct Shop {
    around: Surroundings,
    scratch: Scratch,
}

impl Shop {
    fn start() -> Self {
        Self {
            around: Surroundings::start(),
            scratch: Scratch::new(env!("CARGO_TARGET_TMPDIR")),
        }
    }

    fn file(&self) -> PathBuf {
        self.scratch.file("shop.sqlite")
    }

    /// Starts the program, and waits until it requests the payment of the first buyer.
    fn sell(&self, orders: &[&str]) -> (Service, Charge) {
        let arguments = self.arguments(orders);
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        self.around.run_to_charge(PROGRAM, &arguments, orders[0])
    }

    /// Runs the program to its end.
    fn sell_all(&self, orders: &[&str]) -> Ended {
        let arguments = self.arguments(orders);
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        self.around.run_to_end(PROGRAM, &arguments)
    }

    fn arguments(&self, orders: &[&str]) -> Vec<String> {
        let file = self.file().display().to_string();
        let orders = orders.iter().map(|order| (*order).to_owned());
        std::iter::once(file).chain(orders).collect()
    }

    /// Waits for the charge of the next buyer, which any of the processes may request.
    fn next_charge(&self) -> Charge {
        let mut charge = None;
        wait::until("a buyer is to pay", LIMIT, || {
            charge = self.around.provider.next();
            charge.is_some()
        });
        charge.expect("a buyer asked")
    }

    /// Waits until a buyer of another process queues for the kettles. Fails if this buyer reaches
    /// the payment while the first one still has the lock.
    fn wait_for_a_queue(&self) {
        let probe = self.around.redis.probe();
        wait::until("a buyer queues", LIMIT, || {
            assert!(self.around.provider.next().is_none(), "two buyers at once");
            !probe.keys(QUEUE).is_empty()
        });
    }

    /// Returns the number of kettles left, and the number of orders.
    fn books(&self) -> (i64, i64) {
        let sql = "SELECT stock, (SELECT COUNT(*) FROM orders) FROM items";
        block_on(async {
            let mut database = open(&self.file()).await;
            let row = sqlx::query_as(sql).fetch_one(&mut database).await;
            database.close().await.expect("it closes");
            row.expect("there is a row of kettles")
        })
    }
}

async fn open(file: &Path) -> SqliteConnection {
    let options = SqliteConnectOptions::new().filename(file);
    let options = options.busy_timeout(LIMIT);
    options.connect().await.expect("the service made the file")
}

fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(future)
}

fn count_of(ended: &Ended, outcome: &str) -> usize {
    assert!(ended.status.success(), "{ended:?}");
    let lines = ended.stdout.lines();
    lines.filter(|line| line.contains(outcome)).count()
}

/// Two processes have two buyers each, but there are only two kettles.
#[test]
fn no_more_is_sold_than_was_in_stock() {
    let shop = Shop::start();
    let ended = thread::scope(|scope| {
        let (first, charge) = shop.sell(&["1", "2"]);
        let second = scope.spawn(|| shop.sell_all(&["3", "4"]));
        shop.wait_for_a_queue();
        charge.pay();
        shop.next_charge().pay();
        [first.wait(), second.join().expect("no panic")]
    });
    let count = |outcome| ended.iter().map(|process| count_of(process, outcome)).sum();
    assert_eq!((count(": sold, "), count(": sold out")), (2_usize, 2_usize));
    assert_eq!(shop.books(), (0, 2));
    assert!(shop.around.provider.next().is_none(), "a third charge");
}

/// The test deletes the lock's key. The next renewal detects the loss, and the body is dropped. So
/// the open database transaction, which already contains the sale, is dropped and rolled back.
#[test]
fn a_lost_lease_rolls_the_sale_back() {
    let shop = Shop::start();
    let (process, charge) = shop.sell(&["1"]);
    let probe = shop.around.redis.probe();
    assert!(probe.delete(KEY), "the body runs inside the lock");
    charge.wait_until_dropped();
    let ended = process.wait();
    let lost = "order 1: the lease on `stock:eu:kettle` was lost";
    assert_eq!(count_of(&ended, lost), 1, "{ended:?}");
    assert_eq!(shop.books(), (2, 0));
}

#[test]
fn a_refused_payment_rolls_the_sale_back() {
    let shop = Shop::start();
    let (process, charge) = shop.sell(&["1", "2"]);
    charge.refuse();
    shop.around.provider.asked_for("2").pay();
    let ended = process.wait();
    assert_eq!(count_of(&ended, "order 1: no payment"), 1, "{ended:?}");
    assert_eq!(count_of(&ended, "order 2: sold, 1 left"), 1, "{ended:?}");
    assert_eq!(shop.books(), (1, 1));
}

/// The test writes the fence of a later holder into the row. The database must then refuse a buyer
/// with an earlier fence, before this buyer is charged.
#[test]
fn the_table_refuses_a_buyer_with_an_earlier_fence() {
    let shop = Shop::start();
    assert_eq!(count_of(&shop.sell_all(&[]), "order"), 0);
    block_on(async {
        let mut database = open(&shop.file()).await;
        let sql = "UPDATE items SET fence = 9007199254740991"; // 2^53 - 1: no fence is greater
        let updated = sqlx::query(sql).execute(&mut database).await;
        assert_eq!(updated.expect("it is writable").rows_affected(), 1);
        database.close().await.expect("it closes");
    });
    let ended = shop.sell_all(&["1"]);
    let late = "order 1: a later buyer was served meanwhile; nothing was sold";
    assert_eq!(count_of(&ended, late), 1, "{ended:?}");
    assert_eq!(shop.books(), (2, 0));
    assert!(shop.around.provider.next().is_none(), "a charge");
}
