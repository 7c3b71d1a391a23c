//! Tests of the demonstration's page in headless Chromium. With the lock on, the page must show no
//! double order. With the lock off, the page must show double orders.

mod browser;

use std::fs;
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Duration;

use leasehold_tests::scratch::Scratch;
use leasehold_tests::server::Server;
use leasehold_tests::wait;
use serde_json::{Value, json};

use self::browser::Browser;
use crate::harness::http;
use crate::harness::service::Service;

/// Response time of the payment provider in milliseconds. Even on a busy machine, the second click
/// comes before this time is over.
const PAYMENT_MS: &str = "2000";
/// Maximum size of the README's picture.
const PICTURE_BYTES: usize = 400_000;

/// Code of the Enter key in `WebDriver`.
const ENTER: &str = "\u{e007}";

/// The page of a demonstration. The fields are dropped in order of declaration, so the browser ends
/// before the service.
struct Page {
    browser: Browser,
    rounds: u32,
    demo: Demo,
}

struct Demo {
    service: Service,
    _scratch: Scratch,
}

/// A round (the clicks of one button), as shown on the page.
#[derive(Debug)]
struct Round {
    orders: String,
    charges: String,
    is_red: bool,
    footer: String,
    /// The requests and answers of service A and of service B.
    a: Vec<String>,
    b: Vec<String>,
}

fn demo(lock_store: &str) -> Demo {
    let scratch = Scratch::new(env!("CARGO_TARGET_TMPDIR"));
    let arguments = ["--demo", "--payment-ms", PAYMENT_MS];
    Demo {
        service: Service::start(lock_store, &scratch.file("shop.sqlite"), &arguments),
        _scratch: scratch,
    }
}

impl Page {
    fn open(demo: Demo) -> Self {
        let browser = Browser::open(&demo.service.url());
        let page = Self {
            browser,
            rounds: 0,
            demo,
        };
        let named = "!document.getElementById('place-B').innerText.startsWith('…')";
        page.browser.wait_for("both services", named);
        page
    }

    fn set_lock(&self, on: bool) {
        let is_on = "document.getElementById('lock').checked";
        if self.browser.is_true(is_on) != on {
            self.browser.click(".switch");
        }
        assert_eq!(self.browser.is_true(is_on), on);
    }

    /// Clicks a button, without waiting for the end of the round.
    fn begin(&mut self, button: &str) {
        let idle = "document.body.dataset.running === '0'";
        self.browser.wait_for("the end of the round before", idle);
        self.browser.click(&format!("[data-button={button}]"));
        self.rounds += 1;
    }

    fn end(&self) -> Round {
        let round = format!("#round-{}", self.rounds);
        let ended = format!("document.querySelector('{round} footer') !== null");
        self.browser.wait_for("the end of the round", &ended);
        let count = |name: &str| {
            let count = self
                .browser
                .value(&format!("document.querySelector('{round}').dataset.{name}"));
            count.as_str().expect("a count").to_owned()
        };
        let red = format!("document.querySelector('{round}').classList.contains('wrong')");
        Round {
            orders: count("orders"),
            charges: count("charges"),
            is_red: self.browser.is_true(&red),
            footer: self.browser.text(&format!("{round} footer")),
            a: self.browser.texts(&format!("{round}-A .exchange")),
            b: self.browser.texts(&format!("{round}-B .exchange")),
        }
    }

    /// Fails if a text on the page has less contrast than WCAG AA demands.
    #[track_caller]
    fn assert_legible(&self) {
        let faint = self.browser.value(include_str!("faint_texts.js"));
        assert_eq!(faint, json!([]));
    }

    fn play(&mut self, button: &str, lock: bool) -> Round {
        self.set_lock(lock);
        self.begin(button);
        self.end()
    }
}

impl Round {
    fn exchanges(&self, containing: &str) -> usize {
        let all = self.a.iter().chain(&self.b);
        all.filter(|exchange| exchange.contains(containing)).count()
    }

    #[track_caller]
    fn assert_single(&self) {
        assert_eq!((&*self.orders, &*self.charges), ("1", "1"), "{self:?}");
        assert!(!self.is_red, "{self:?}");
        assert_eq!(self.exchanges(": 201 "), 1, "{self:?}");
        assert!(
            self.footer.starts_with("ordered once, charged once"),
            "{self:?}"
        );
    }

    #[track_caller]
    fn assert_double(&self, times: usize) {
        let orders: usize = self.orders.parse().expect("a number");
        assert!(orders >= times && self.charges == self.orders, "{self:?}");
        assert!(self.is_red, "{self:?}");
        assert_eq!(self.exchanges(": 201 "), orders, "{self:?}");
        assert!(self.footer.contains("the customer pays"), "{self:?}");
    }
}

#[test]
fn with_the_lock_each_button_makes_one_order_in_two_processes() {
    let redis = Server::start();
    let mut page = Page::open(demo(&redis.url()));
    let places = page.browser.texts(".head span");
    assert!(
        places.iter().all(|place| place.starts_with("process ")),
        "{places:?}"
    );
    assert_ne!(places[0], places[1]);

    page.set_lock(true);
    page.begin("double_click");
    let held = "document.getElementById('strip').className === 'held'";
    page.browser.wait_for("the holder", held);
    let holder = page.browser.text("#holder");
    let owner = format!("({}) · fence ", places[0].replace("process", "pid"));
    assert!(
        holder.contains("is held by service A: ")
            && holder.contains(&owner)
            && holder.ends_with(" s left"),
        "{holder}"
    );
    let clicks = page.end();
    clicks.assert_single();
    assert!(clicks.a[1].contains("409 · Retry-After: "), "{clicks:?}");
    assert_eq!(page.browser.text("#holder"), "no lock is held");

    let both = page.play("both_services", true);
    both.assert_single();
    assert_eq!(both.exchanges("409 · Retry-After: "), 1, "{both:?}");
    assert_eq!((both.a.len(), both.b.len()), (1, 1), "{both:?}");

    let twenty = page.play("twenty_clicks", true);
    twenty.assert_single();
    assert_eq!(twenty.exchanges("409 · Retry-After: "), 19, "{twenty:?}");

    let later = page.play("once_more", true);
    assert_eq!((&*later.orders, &*later.charges), ("1", "1"), "{later:?}");
    assert!(
        later.b[0].contains("200 the first result again, made by "),
        "{later:?}"
    );
}

#[test]
fn a_killed_holder_keeps_its_lock_until_its_lease_ends() {
    let redis = Server::start();
    let mut page = Page::open(demo(&redis.url()));
    let before = page.browser.text("#place-A");
    let killed = page.play("kill_holder", true);
    killed.assert_single();
    assert!(killed.a[0].contains("gone"), "{killed:?}");
    assert!(killed.b[0].contains("409 · Retry-After: "), "{killed:?}");
    assert!(
        killed.b[killed.b.len() - 1].contains(": 201 order made by B"),
        "{killed:?}"
    );
    let after = page.browser.text("#place-A");
    assert!(
        after.starts_with("process ") && after != before,
        "{before} and {after}"
    );
    page.play("double_click", true).assert_single();
}

/// Fails if the page does not show double orders in red. Also fails if the picture for the README,
/// which this test takes, is too large. The environment variable `LEASEHOLD_PICTURE` specifies the
/// picture's file.
#[test]
fn without_the_lock_the_page_shows_double_orders_in_red() {
    let redis = Server::start();
    let mut page = Page::open(demo(&redis.url()));
    page.play("both_services", false).assert_double(2);
    page.play("both_services", true).assert_single();
    page.begin("double_click");
    let seen = format!(
        "document.getElementById('strip').className === 'held' && \
         document.querySelector('#round-{} .refused') !== null",
        page.rounds
    );
    page.browser.wait_for("a holder and a refused click", &seen);
    let picture = page.browser.picture();
    page.end().assert_single();
    page.play("double_click", false).assert_double(2);
    page.play("twenty_clicks", false).assert_double(3);
    page.assert_legible();
    let disabled = "document.getElementById('kill').disabled";
    assert!(page.browser.is_true(disabled));

    assert!(picture.starts_with(b"\x89PNG"));
    assert!(picture.len() <= PICTURE_BYTES, "{} bytes", picture.len());
    let file = std::env::var_os("LEASEHOLD_PICTURE").map(PathBuf::from);
    let file =
        file.unwrap_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("double-click.png"));
    fs::write(&file, picture).expect("the folder is writable");
}

#[test]
fn services_in_memory_are_pools_of_one_process() {
    let mut page = Page::open(demo("memory://"));
    let places = page.browser.texts(".head span");
    assert!(places[0].starts_with("pool A in process "), "{places:?}");
    assert!(places[1].starts_with("pool B in process "), "{places:?}");
    page.play("both_services", false).assert_double(2);
    page.play("both_services", true).assert_single();
    assert!(
        page.browser
            .is_true("document.getElementById('kill').disabled")
    );

    let path = "/rounds?button=kill_holder&lock=true";
    let refused = http::post(page.demo.service.address(), path, "");
    assert_eq!(refused.status, 422, "{refused:?}");
    assert!(refused.body.contains("LEASEHOLD_URL"), "{refused:?}");
}

#[test]
fn nothing_is_sold_and_nothing_is_red_while_the_store_is_away() {
    let mut redis = Server::start();
    let mut page = Page::open(demo(&redis.url()));
    redis.kill();
    for button in ["double_click", "kill_holder", "once_more"] {
        let round = page.play(button, true);
        assert_eq!((&*round.orders, &*round.charges), ("0", "0"), "{round:?}");
        assert!(!round.is_red, "{round:?}");
        let text = "nothing was sold, nobody pays: the lock store is away";
        assert_eq!(round.footer, text, "{round:?}");
        let clicks = round.a.len() + round.b.len();
        assert_eq!(
            round.exchanges(": 503 · Retry-After: "),
            clicks,
            "{round:?}"
        );
        let strip = page.browser.text("#holder");
        assert_eq!(strip, "the lock store does not answer");
    }
    page.assert_legible();

    redis.restart();
    // The services may need a moment to connect again.
    let mut rounds = std::iter::repeat_with(|| page.play("double_click", true)).take(30);
    let back = rounds.find(|round| round.exchanges(": 503 ") == 0);
    back.expect("the store is back").assert_single();
    assert_eq!(page.browser.text("#holder"), "no lock is held");
    redis.kill();
    let later = page.play("once_more", true);
    assert_eq!((&*later.orders, &*later.charges), ("1", "1"), "{later:?}");
    assert!(later.footer.contains("the lock store is away"), "{later:?}");
}

#[test]
fn the_keyboard_focus_stays_on_the_used_button() {
    let mut page = Page::open(demo("memory://"));
    for button in ["double_click", "once_more"] {
        let selector = format!("[data-button={button}]");
        let focused = format!("document.activeElement.matches('{selector}')");
        // The second press has no effect, because the round of the first press is still running.
        page.browser.press(&selector, &ENTER.repeat(2));
        page.rounds += 1;
        let round = page.end();
        assert!(!round.is_red, "{round:?}");
        let idle = "document.body.dataset.running === '0'";
        page.browser.wait_for("the end of the round", idle);
        assert!(page.browser.is_true(&focused), "{button}");
        assert_eq!(page.browser.text("#problem"), "", "{button}");
    }
}

/// Fails if the services continue to run after their demonstration was killed.
#[test]
fn services_end_with_the_demonstration() {
    let redis = Server::start();
    let mut demo = demo(&redis.url());
    let lines = [demo.service.line(), demo.service.line()];
    let addresses = lines.map(|line| {
        let (_, address) = line
            .split_once("http://")
            .unwrap_or_else(|| panic!("{line}"));
        address.trim().to_owned()
    });
    let answers = |address: &String| TcpStream::connect(address).is_ok();
    assert!(addresses.iter().all(answers), "{addresses:?}");
    drop(demo);
    let ended = || !addresses.iter().any(answers);
    wait::until("both services end", Duration::from_secs(30), ended);
}

#[test]
fn a_verdict_is_also_available_as_json() {
    let demo = demo("memory://");
    let address = demo.service.address();
    let round = http::post(address, "/rounds?button=once_more&lock=true", "");
    assert_eq!(round.status, 422, "{round:?}");
    let round = http::post(address, "/rounds?button=twenty_clicks&lock=true", "");
    let verdict: Value = serde_json::from_str(&round.body).expect("JSON");
    assert_eq!(verdict["count"]["orders"], 1, "{verdict}");
    assert_eq!(verdict["outcome"], "right", "{verdict}");
}
