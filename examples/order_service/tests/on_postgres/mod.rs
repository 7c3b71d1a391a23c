//! Two order services in separate processes, with locks and data in one PostgreSQL database.

use std::thread;

use leasehold_tests::postgres::{Database, Postgres, PostgresProbe};
use leasehold_tests::scratch::Scratch;

use crate::harness::http;
use crate::harness::service::{self, Service};

/// The fields are dropped in order of declaration, so the services end before the servers and files
/// that they use.
struct TwoServices {
    services: [Service; 2],
    probe: PostgresProbe,
    _database: Database,
    _scratch: Scratch,
}

impl TwoServices {
    /// Starts both services at once, on a database without tables.
    fn start(items: &str) -> Self {
        let database = Postgres::shared().database();
        let scratch = Scratch::new(env!("CARGO_TARGET_TMPDIR"));
        let start = || {
            let mut command = service::program();
            command.args(["--store", &database.url(), "--items", items]);
            command.args(["--payment-ms", "5"]);
            Service::launch(command, &scratch.file("shop"))
        };
        let services = thread::scope(|scope| {
            let both = [scope.spawn(start), scope.spawn(start)];
            both.map(|service| service.join().expect("it starts"))
        });
        Self {
            services,
            probe: database.probe("lock:"),
            _database: database,
            _scratch: scratch,
        }
    }

    fn address(&self, number: usize) -> &str {
        self.services[number % 2].address()
    }

    fn count(&self, sql: &str) -> usize {
        self.probe.value(sql).parse().expect("a number")
    }
}

/// Fails if an item is sold twice, or an order is made twice.
#[test]
fn each_order_is_made_once_and_nothing_is_oversold() {
    const BUYERS: usize = 60;
    const STOCK: usize = 20;
    const ORDERS: usize = 10;
    const COPIES: usize = 4;
    let shop = TwoServices::start("kettle=20,cup=1000");
    let shop = &shop;
    let statuses = thread::scope(|scope| {
        let buyers = (0..BUYERS).map(|number| {
            let buy = move || http::post(shop.address(number), "/items/kettle/buy", "").status;
            scope.spawn(buy)
        });
        let buyers: Vec<_> = buyers.collect();
        let clicks = (0..ORDERS * COPIES).map(|number| {
            let order = format!(r#"{{"id": "{}", "sku": "cup"}}"#, number % ORDERS);
            let address = shop.address(number / ORDERS);
            scope.spawn(move || {
                let status = http::post(address, "/orders", &order).status;
                // The order of a cup gets 503 if its sale has waited in the queue for five seconds.
                assert!([200, 201, 409, 503].contains(&status), "{status}");
            })
        });
        let clicks: Vec<_> = clicks.collect();
        for click in clicks {
            click.join().expect("a click is answered");
        }
        let statuses = buyers.into_iter().map(std::thread::ScopedJoinHandle::join);
        let statuses: Result<Vec<u16>, _> = statuses.collect();
        statuses.expect("a buyer is answered")
    });
    let sold = |sku: &str| shop.count(&format!("SELECT count(*) FROM orders WHERE sku = '{sku}'"));
    let stock = |sku: &str| shop.count(&format!("SELECT stock FROM items WHERE sku = '{sku}'"));
    let served = statuses.iter().filter(|status| **status == 201).count();
    assert_eq!((sold("kettle"), stock("kettle")), (served, STOCK - served));
    // Buyers who wait for too long get 503. The only other answers are a sale and "sold out".
    assert!(served <= STOCK, "{statuses:?}");
    let known = |status: &u16| [201, 410, 503].contains(status);
    assert!(statuses.iter().all(known), "{statuses:?}");
    assert_eq!(sold("cup") + stock("cup"), 1_000);

    // Buys the rest of the stock, and sends each order again. Each order must then exist once.
    for number in served..=STOCK {
        let answer = http::post(shop.address(number), "/items/kettle/buy", "");
        let expected = if number < STOCK { 201 } else { 410 };
        assert_eq!(answer.status, expected, "{answer:?}");
    }
    for number in 0..ORDERS {
        let order = format!(r#"{{"id": "{number}", "sku": "cup"}}"#);
        let answer = http::post(shop.address(number), "/orders", &order);
        assert!([200, 201].contains(&answer.status), "{answer:?}");
    }
    assert_eq!((sold("cup"), stock("cup")), (ORDERS, 1_000 - ORDERS));
    let list = http::get(shop.address(0), "/items").body;
    assert!(list.starts_with(r#"[{"sku":"kettle","stock":0}"#), "{list}");
    let list = http::get(shop.address(1), "/orders").body;
    assert!(list.contains(r#""count":30"#), "{list}");
}

/// Fails if a wrong URL in `--store` is not reported, or if the error shows the password in the
/// URL.
#[test]
fn another_store_is_refused() {
    let run = |store: &str| {
        let output = service::program().args(["--store", store]).output();
        let output = output.expect("cargo built the service");
        assert!(!output.status.success());
        String::from_utf8(output.stderr).expect("text")
    };
    let printed = run("redis://127.0.0.1/");
    assert!(printed.contains("LEASEHOLD_URL"), "{printed}");
    let closed = Postgres::shared().database().url();
    let closed = closed.replace("leasehold@", "leasehold:hunter2@");
    let printed = run(&closed.replace("/test_", "/none_"));
    assert!(printed.contains("no such database"), "{printed}");
    assert!(!printed.contains("hunter2"), "{printed}");
}
