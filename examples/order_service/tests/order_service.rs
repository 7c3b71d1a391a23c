//! Two order services in separate processes, on one Redis and one database.

#[allow(dead_code, reason = "each test program uses a part of it")]
mod harness;
#[cfg(feature = "postgres")]
mod on_postgres;

use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use harness::http;
use harness::service::{self, Service};
use leasehold_tests::scratch::Scratch;
use leasehold_tests::server::Server;
use leasehold_tests::wait;

const STOCK: [&str; 2] = ["--items", "kettle=20,cup=1000"];

/// The fields are dropped in order of declaration, so the services end before the servers and files
/// that they use.
struct TwoServices {
    first: Service,
    second: Service,
    redis: Server,
    scratch: Scratch,
}

impl TwoServices {
    fn start(payment_ms: &str) -> Self {
        let redis = Server::start();
        let scratch = Scratch::new(env!("CARGO_TARGET_TMPDIR"));
        let database = scratch.file("shop.sqlite");
        let arguments = [STOCK[0], STOCK[1], "--payment-ms", payment_ms];
        let url = redis.url();
        Self {
            first: Service::start(&url, &database, &arguments),
            second: Service::start(&url, &database, &arguments),
            redis,
            scratch,
        }
    }

    /// Waits until a request holds the lock of order 42.
    fn wait_until_42_is_processed(&self) {
        let probe = self.redis.probe();
        let locked = || probe.get("lock:order:42").is_some();
        wait::until("order 42 is locked", Duration::from_secs(10), locked);
    }
}

fn load(first: &Service, second: &Service, scratch: &Scratch, sizes: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_load_orders"))
        .args(["--url", &first.url(), "--url", &second.url()])
        .arg("--database")
        .arg(scratch.file("shop.sqlite"))
        .args(sizes)
        .output()
        .expect("cargo built the load client")
}

fn order(id: &str) -> String {
    format!(r#"{{"id": "{id}", "sku": "cup"}}"#)
}

#[test]
fn under_load_each_order_is_made_once_and_nothing_is_oversold() {
    let shop = TwoServices::start("5");
    let sizes = ["--orders", "50", "--copies", "20", "--buys", "1000"];
    let output = load(&shop.first, &shop.second, &shop.scratch, &sizes);
    let printed = String::from_utf8_lossy(&output.stdout);
    println!("{printed}{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success());
}

/// Two services have separate locks, so duplicate orders occur. Fails if the load client does not
/// detect them, because the test above would then prove nothing.
#[test]
fn the_load_client_detects_services_without_shared_locks() {
    let scratch = Scratch::new(env!("CARGO_TARGET_TMPDIR"));
    let database = scratch.file("shop.sqlite");
    let arguments = [STOCK[0], STOCK[1], "--payment-ms", "50"];
    let first = Service::start("memory://", &database, &arguments);
    let second = Service::start("memory://", &database, &arguments);
    let sizes = ["--orders", "10", "--copies", "4", "--buys", "100"];
    let output = load(&first, &second, &scratch, &sizes);
    let printed = String::from_utf8_lossy(&output.stdout);
    println!("{printed}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(1));
    let doubled = |line: &str| line.contains("WRONG") && line.contains("payments asked for");
    assert!(printed.lines().any(doubled));
}

/// Fails if a second click on the other service is refused, makes another order, or is not marked
/// as a repetition.
#[test]
fn a_second_click_on_the_other_service_shows_the_first_order() {
    let shop = TwoServices::start("1000");
    let (first, second) = thread::scope(|scope| {
        let first = scope.spawn(|| http::post(shop.first.address(), "/orders", &order("42")));
        shop.wait_until_42_is_processed();
        let second = http::post(shop.second.address(), "/orders", &order("42"));
        (first.join().expect("no panic"), second)
    });
    assert_eq!(first.status, 201, "{first:?}");
    assert!(!first.head.contains("idempotency-replayed"), "{first:?}");
    let later = http::post(shop.first.address(), "/orders", &order("42"));
    for again in [second, later] {
        assert_eq!(again.status, 200, "{again:?}");
        assert_eq!(again.body, first.body, "the first result again");
        let reported = again.head.contains("idempotency-replayed: true");
        assert!(reported, "{again:?}");
    }
    let list = http::get(shop.first.address(), "/orders");
    assert!(list.body.contains(r#""count":1"#), "{list:?}");
    let cups = http::get(shop.second.address(), "/items/cup");
    assert!(cups.body.contains(r#""stock":999"#), "{cups:?}");
}

/// The first click takes nine seconds, and a second click waits for at most two. Fails if the
/// second click is not refused with 409.
#[test]
fn a_second_click_is_refused_if_the_first_takes_too_long() {
    let shop = TwoServices::start("9000");
    let (first, second) = thread::scope(|scope| {
        let first = scope.spawn(|| http::post(shop.first.address(), "/orders", &order("42")));
        shop.wait_until_42_is_processed();
        let second = http::post(shop.second.address(), "/orders", &order("42"));
        (first.join().expect("no panic"), second)
    });
    assert_eq!(first.status, 201, "{first:?}");
    assert_eq!(second.status, 409, "{second:?}");
    assert!(second.head.contains("retry-after: "), "{second:?}");
    assert!(
        second.head.contains("application/problem+json"),
        "{second:?}"
    );
    assert!(second.body.contains(r#""status":409"#), "{second:?}");
}

/// Fails if the header `Idempotency-Key` does not identify an order. The expected answers are those
/// of the header's IETF draft.
#[test]
fn the_header_names_the_request() {
    let shop = TwoServices::start("0");
    let post = |service: &Service, key: &str, json: &str| {
        let head = format!("idempotency-key: {key}\r\n");
        http::send_with(service.address(), "POST /orders", &head, json)
    };
    let first = post(&shop.first, r#""cart-1""#, r#"{"sku": "cup"}"#);
    assert_eq!(first.status, 201, "{first:?}");
    assert!(first.body.contains(r#""id":"cart-1""#), "{first:?}");
    let again = post(&shop.second, r#""cart-1""#, r#"{"sku": "cup"}"#);
    assert_eq!((again.status, &again.body), (200, &first.body), "{again:?}");
    let other = post(&shop.second, r#""cart-1""#, r#"{"sku": "kettle"}"#);
    assert_eq!(other.status, 422, "another request: {other:?}");
    let body = http::post(shop.first.address(), "/orders", &order("cart-1"));
    assert_eq!((body.status, &body.body), (200, &first.body), "{body:?}");
    let none = http::post(shop.first.address(), "/orders", r#"{"sku": "cup"}"#);
    let invalid = post(&shop.first, "\"", r#"{"sku": "cup"}"#);
    let differs = post(&shop.first, "cart-2", &order("cart-3"));
    for refused in [none, invalid, differs] {
        assert_eq!(refused.status, 400, "{refused:?}");
        let problem = refused.head.contains("application/problem+json");
        assert!(problem, "{refused:?}");
    }
    let list = http::get(shop.first.address(), "/orders");
    assert!(list.body.contains(r#""count":1"#), "{list:?}");
}

#[test]
fn orders_fail_at_once_without_the_lock_store() {
    let mut shop = TwoServices::start("0");
    shop.redis.kill();
    let asked = Instant::now();
    let answer = http::post(shop.first.address(), "/orders", &order("42"));
    assert_eq!(answer.status, 503, "{answer:?}");
    assert!(asked.elapsed() < Duration::from_secs(5));
    assert!(
        answer.head.contains("application/problem+json"),
        "{answer:?}"
    );

    let list = http::get(shop.first.address(), "/orders");
    assert!(list.body.contains(r#""count":0"#), "{list:?}");
}

#[test]
fn client_errors_are_answered_in_json() {
    let scratch = Scratch::new(env!("CARGO_TARGET_TMPDIR"));
    let shop = Service::start("memory://", &scratch.file("shop.sqlite"), &STOCK);
    let cases = [
        (http::get(shop.address(), "/nowhere"), 404),
        (http::get(shop.address(), "/orders/42"), 404),
        (http::get(shop.address(), "/items/spoon"), 404),
        (http::post(shop.address(), "/items/spoon/buy", ""), 404),
        (http::post(shop.address(), "/orders", "{"), 400),
        (
            http::post(shop.address(), "/orders", r#"{"id": "42"}"#),
            422,
        ),
        (
            http::post(shop.address(), "/orders", r#"{"id": "42", "sku": "spoon"}"#),
            404,
        ),
    ];
    for (answer, status) in cases {
        assert_eq!(answer.status, status, "{answer:?}");
        assert!(
            answer.head.contains("application/problem+json"),
            "{answer:?}"
        );
    }
}

/// Fails if an answer contains text that is only for the log: the key, or advice for the program's
/// author.
#[test]
fn answers_about_a_lock_contain_no_key() {
    let scratch = Scratch::new(env!("CARGO_TARGET_TMPDIR"));
    let shop = Service::start("memory://", &scratch.file("shop.sqlite"), &STOCK);
    let long = "x".repeat(600);
    for id in ["", &long] {
        let answer = http::post(shop.address(), "/orders", &order(id));
        assert_eq!(answer.status, 422, "{answer:?}");
        assert!(answer.body.contains("too long"), "{answer:?}");
        for private in ["order:", "<request.id>", "xxx"] {
            assert!(!answer.body.contains(private), "{answer:?}");
        }
    }
}

#[test]
fn an_item_without_stock_is_sold_out() {
    let scratch = Scratch::new(env!("CARGO_TARGET_TMPDIR"));
    let database = scratch.file("shop.sqlite");
    let shop = Service::start("memory://", &database, &["--items", "kettle=1"]);
    assert_eq!(
        http::post(shop.address(), "/items/kettle/buy", "").status,
        201
    );
    let answer = http::post(shop.address(), "/items/kettle/buy", "");
    assert_eq!(answer.status, 410, "{answer:?}");
}

#[test]
fn a_stopping_service_finishes_its_order_first() {
    let mut shop = TwoServices::start("1000");
    let answer = thread::scope(|scope| {
        let address = shop.first.address();
        let answer = scope.spawn(move || http::post(address, "/orders", &order("42")));
        shop.wait_until_42_is_processed();
        shop.first.ask_to_stop();
        answer.join().expect("no panic")
    });
    assert_eq!(answer.status, 201, "{answer:?}");
    let (status, printed) = shop.first.wait();
    assert!(status.success());
    assert!(printed.contains("0 still held, 0 unconfirmed"), "{printed}");
}

#[test]
fn a_service_without_a_lock_store_does_not_start() {
    let scratch = Scratch::new(env!("CARGO_TARGET_TMPDIR"));
    let output = service::command("", &scratch.file("shop.sqlite"), &[])
        .env_remove("LEASEHOLD_URL")
        .output()
        .expect("cargo built the service");
    assert!(!output.status.success());
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(printed.contains("LEASEHOLD_URL"), "{printed}");
}
