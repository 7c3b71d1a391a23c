use std::net::TcpStream;
use std::thread;

use leasehold_tests::wait;

use super::harness::http::{self, Answer};
use super::harness::service::Service;
use super::harness::{LIMIT, Surroundings};

const PROGRAM: &str = env!("CARGO_BIN_EXE_operations");

fn get(service: &Service, path: &str) -> Answer {
    http::get(service.address(), path)
}

fn click(service: &Service) -> Answer {
    http::post(service.address(), "/orders/42", "")
}

#[test]
fn only_readiness_depends_on_redis() {
    let mut shop = Surroundings::start();
    let service = shop.serve(PROGRAM);
    let ready = get(&service, "/ready");
    assert_eq!((ready.status, ready.body.as_str()), (200, "ready\n"));

    shop.redis.kill();
    let away = get(&service, "/ready");
    assert_eq!(away.status, 503, "{away:?}");
    assert_eq!(away.body, "the lock service is not available\n");
    assert_eq!(get(&service, "/live").status, 200);

    shop.redis.restart();
    wait::until("it is ready again", LIMIT, || {
        get(&service, "/ready").status == 200
    });
}

#[test]
fn outcomes_are_counted() {
    let shop = Surroundings::start();
    let service = shop.serve(PROGRAM);
    thread::scope(|scope| {
        let first = scope.spawn(|| click(&service));
        let charge = shop.provider.asked_for("42");
        assert_eq!(click(&service).status, 409);
        charge.pay();
        assert_eq!(first.join().expect("no panic").status, 201);
    });
    let counts = [
        r#"leasehold_acquisitions_total{outcome="granted"} 1"#,
        r#"leasehold_acquisitions_total{outcome="contended"} 1"#,
        r#"leasehold_releases_total{confirmed="true"} 1"#,
    ];
    // A separate thread passes the counts to the recorder a few milliseconds after the requests.
    let mut metrics = String::new();
    let reported = wait::try_until(LIMIT, || {
        metrics = get(&service, "/metrics").body;
        counts.iter().all(|count| metrics.contains(count))
    });
    assert!(reported.is_some(), "{metrics}");
}

#[test]
fn a_running_order_is_finished_before_the_service_ends() {
    let shop = Surroundings::start();
    let service = shop.serve(PROGRAM);
    let answer = thread::scope(|scope| {
        let first = scope.spawn(|| click(&service));
        let charge = shop.provider.asked_for("42");
        service.ask_to_stop();
        wait::until("it takes no more requests", LIMIT, || {
            TcpStream::connect(service.address()).is_err()
        });
        charge.pay();
        first.join().expect("no panic")
    });
    assert_eq!(answer.status, 201, "{answer:?}");
    let ended = service.wait();
    assert!(ended.status.success(), "{ended:?}");
    let end = "stopped: 0 locks still held, 0 releases unconfirmed\n";
    assert_eq!(ended.stdout, end);
    assert_eq!(shop.redis.probe().get("lock:order:42"), None);
}

#[test]
fn the_service_does_not_start_without_redis() {
    let mut shop = Surroundings::start();
    shop.redis.kill();
    let ended = Service::start(&mut shop.command(PROGRAM, &[])).wait();
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert!(ended.stderr.contains("unavailable"), "{ended:?}");
}
