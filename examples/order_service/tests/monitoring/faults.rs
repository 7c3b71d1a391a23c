//! Tests two services, first under load and then with faults. Every panel of the dashboard must
//! have data. Each alert must fire during its fault, and end after the fault.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, Scope};
use std::time::Duration;

use leasehold_tests::room;
use leasehold_tests::scratch::Scratch;
use leasehold_tests::server::Server;
use leasehold_tests::wait;
use sqlx::Connection as _;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};

use super::dashboard;
use super::prometheus::Prometheus;
use crate::harness::http;
use crate::harness::service::Service;

const LIMIT: Duration = Duration::from_mins(1);

/// Response time of the payment provider. It is long enough for a test to take the order's lock
/// away before the answer.
const PAYMENT_MS: &str = "300";

/// Number of buyers. The alert `LeaseholdWaitingGrows` needs more than twenty waiting calls.
const CROWD: u32 = 60;

/// The fields are dropped in order of declaration, so Prometheus and the services end before the
/// Redis server and the files that they use.
struct Scene {
    prometheus: Prometheus,
    services: [Service; 2],
    redis: Server,
    scratch: Scratch,
}

impl Scene {
    fn start() -> Self {
        let redis = Server::start();
        let scratch = Scratch::new(env!("CARGO_TARGET_TMPDIR"));
        let database = scratch.file("shop.sqlite");
        let items = [
            "--items",
            "kettle=100000,cup=100000",
            "--payment-ms",
            PAYMENT_MS,
        ];
        let services = [(); 2].map(|()| Service::start(&redis.url(), &database, &items));
        let addresses = services.each_ref().map(Service::address);
        let prometheus = Prometheus::start(&scratch.file(""), &addresses);
        Self {
            prometheus,
            services,
            redis,
            scratch,
        }
    }

    fn post(&self, service: usize, path: &str, json: &str) -> http::Answer {
        http::post(self.services[service].address(), path, json)
    }

    /// Waits until the alert `alert` fires with `value` in the label `label`.
    fn fires(&self, alert: &str, label: &str, value: &str) {
        wait::until(&format!("{alert} fires"), LIMIT, || {
            self.is_firing(alert, label, value)
        });
    }

    /// Waits until no alert fires.
    fn all_is_quiet(&self, after: &str) {
        let mut firing = Vec::new();
        let quiet = wait::try_until(LIMIT, || {
            firing = self.prometheus.firing();
            firing.is_empty()
        });
        assert!(quiet.is_some(), "{after}: {firing:?}");
    }

    fn is_firing(&self, alert: &str, label: &str, value: &str) -> bool {
        let mut firing = self.prometheus.firing().into_iter();
        firing.any(|labels| labels["alertname"] == alert && labels[label] == value)
    }
}

/// Sends load until `done`: clicks on orders, each on both services at once, and buyers of cups.
fn load<'scope>(scope: &'scope Scope<'scope, '_>, scene: &'scope Scene, done: &'scope AtomicBool) {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    scope.spawn(move || {
        while !done.load(Ordering::Relaxed) {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let order = format!(r#"{{"id": "{number}", "sku": "cup"}}"#);
            thread::scope(|clicks| {
                for service in [0, 1] {
                    let order = &order;
                    clicks.spawn(move || scene.post(service, "/orders", order));
                }
            });
        }
    });
    for service in [0, 1] {
        scope.spawn(move || {
            while !done.load(Ordering::Relaxed) {
                scene.post(service, "/items/cup/buy", "");
            }
        });
    }
}

/// Fails if a query of the dashboard is wrong, or needs a metric that no service reports.
fn every_panel_has_data(scene: &Scene) {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        load(scope, scene, &done);
        for query in dashboard::queries() {
            let mut samples = Vec::new();
            let reported = wait::try_until(LIMIT, || {
                samples = scene.prometheus.query(&query.text);
                !samples.is_empty()
            });
            if reported.is_none() {
                done.store(true, Ordering::Relaxed);
                panic!("{}: nothing for {}", query.of, query.text);
            }
            println!("{}: {} series, {:?}", query.of, samples.len(), samples[0]);
        }
        done.store(true, Ordering::Relaxed);
    });
    for lock in ["order:<request.id>", "item:<sku>"] {
        let query = format!("sum(leasehold_acquire_seconds_count{{lock={lock:?}}})");
        assert!(0.0 < scene.prometheus.query(&query)[0].value, "{lock}");
    }
    let read = scene
        .prometheus
        .query("count by (instance) (leasehold_store_up)");
    assert_eq!(read.len(), 2, "both services are read: {read:?}");
    scene.all_is_quiet("load is no fault");
}

/// A client without leasehold takes the lock of an order while the order is being made. The alert
/// `LeaseholdLeaseLost` must fire.
fn a_stolen_lock_is_reported(scene: &Scene) {
    let probe = scene.redis.probe();
    thread::scope(|scope| {
        let made = scope.spawn(|| scene.post(0, "/orders", r#"{"id": "stolen", "sku": "cup"}"#));
        let locked = || probe.get("lock:order:stolen").is_some();
        wait::until("the order is locked", LIMIT, locked);
        probe.overwrite(
            "lock:order:stolen",
            "another client",
            Duration::from_secs(1),
        );
        made.join().expect("no panic");
    });
    scene.fires("LeaseholdLeaseLost", "lock", "order:<request.id>");
    scene.all_is_quiet("no further lock is stolen");
}

fn a_store_that_is_down_is_reported(scene: &mut Scene) {
    let store = scene.redis.url();
    scene.redis.kill();
    let named = scene.prometheus.query("leasehold_store_up");
    let name = named[0].labels["store"]
        .as_str()
        .expect("a label")
        .to_owned();
    assert_eq!(name, store.trim_end_matches('/'));
    scene.fires("LeaseholdStoreDown", "store", &name);
    scene.redis.restart();
    scene.all_is_quiet("the store is back");

    scene.redis.pause();
    // A service detects a paused store only when it sends a request to the store. So the test
    // causes such a request.
    let refused = scene.post(0, "/items/cup/buy", "");
    assert_eq!(refused.status, 503, "{refused:?}");
    scene.fires("LeaseholdStoreDown", "store", &name);
    scene.redis.resume();
    scene.all_is_quiet("the store answers again");
}

/// A client without leasehold keeps the lock of an item, and more and more buyers arrive. The alert
/// `LeaseholdWaitingGrows` must fire.
fn a_queue_that_grows_is_reported(scene: &Scene) {
    let probe = scene.redis.probe();
    assert!(probe.set_nx("lock:item:cup", "another client", LIMIT));
    thread::scope(|scope| {
        for _ in 0..CROWD {
            scope.spawn(|| scene.post(0, "/items/cup/buy", ""));
        }
        scene.fires("LeaseholdWaitingGrows", "lock", "item:<sku>");
        assert!(probe.delete("lock:item:cup"));
    });
    scene.all_is_quiet("the buyers are served");
}

/// The database is slow, so a buyer holds an item's lock for most of the lock's ttl. The alert
/// `LeaseholdHoldNearTtl` must fire.
fn a_hold_that_nears_its_ttl_is_reported(scene: &Scene) {
    let probe = scene.redis.probe();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.expect("a runtime starts");
    let database = scene.scratch.file("shop.sqlite");
    let options = SqliteConnectOptions::new()
        .filename(database)
        .busy_timeout(LIMIT);
    let mut writer = runtime
        .block_on(SqliteConnection::connect_with(&options))
        .expect("the database opens");
    runtime
        .block_on(sqlx::query("BEGIN IMMEDIATE").execute(&mut writer))
        .expect("no writer stays for long");
    thread::scope(|scope| {
        let bought = scope.spawn(|| scene.post(0, "/items/kettle/buy", ""));
        let ttl = || probe.ttl("lock:item:kettle");
        wait::until("the buyer has the lock", LIMIT, || ttl().is_some());
        let late = || ttl().is_none_or(|ttl| ttl < Duration::from_millis(1_200));
        wait::until("the lease is nearly over", LIMIT, late);
        runtime
            .block_on(sqlx::query("COMMIT").execute(&mut writer))
            .expect("nothing was written");
        bought.join().expect("no panic");
    });
    scene.fires("LeaseholdHoldNearTtl", "lock", "item:<sku>");
    scene.all_is_quiet("the database is fast again");
}

#[test]
fn every_panel_has_data_and_each_alert_follows_its_fault() {
    let _room = room::enter();
    let mut scene = Scene::start();
    every_panel_has_data(&scene);
    a_stolen_lock_is_reported(&scene);
    a_store_that_is_down_is_reported(&mut scene);
    a_queue_that_grows_is_reported(&scene);
    a_hold_that_nears_its_ttl_is_reported(&scene);
}
