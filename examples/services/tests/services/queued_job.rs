use std::process::Command;
use std::time::Duration;

use leasehold_tests::redis_probe::RedisProbe;
use leasehold_tests::wait;
use redis::cmd;

use super::harness::http::{self, Answer};
use super::harness::service::Service;
use super::harness::{LIMIT, Surroundings};

const PROGRAM: &str = env!("CARGO_BIN_EXE_queued_job");
const KEY: &str = "lock:order:42";

fn click(service: &Service) -> Answer {
    http::post(service.address(), "/orders/42", "")
}

/// Starts the program that answers clicks, with the argument `serve`.
fn handler(shop: &Surroundings) -> Service {
    let mut service = None;
    wait::until("the handler listens", LIMIT, || {
        let mut command: Command = shop.command(PROGRAM, &["serve"]);
        service = Service::listening(&mut command).ok();
        service.is_some()
    });
    service.expect("it listens")
}

fn worker(shop: &Surroundings, name: &str) -> Service {
    Service::start(&mut shop.command(PROGRAM, &["work", name]))
}

fn is_made(service: &Service) -> bool {
    http::get(service.address(), "/orders/42").status == 200
}

/// Returns the number of unfinished jobs.
fn jobs(probe: &RedisProbe) -> u64 {
    probe.run(cmd("XLEN").arg("jobs"))
}

/// Returns the worker that last received the oldest unfinished job, and how often this job was
/// delivered. Returns `None` if no worker has a job.
fn given(probe: &RedisProbe) -> Option<(String, u64)> {
    let mut pending = cmd("XPENDING");
    pending.arg("jobs").arg("workers").arg(&["-", "+", "1"]);
    let entries: Vec<(String, String, u64, u64)> = probe.run(&pending);
    let mut entries = entries.into_iter();
    entries.next().map(|(_, name, _, times)| (name, times))
}

/// Checks that the order was made once, that no job is left, and that the next click gets the lock.
fn assert_done(shop: &Surroundings, service: &Service) {
    let probe = shop.redis.probe();
    wait::until("the order is made", LIMIT, || is_made(service));
    // Checks the queue before the lock, because the lock is also free between two jobs. A worker
    // removes its job before it releases the lock.
    wait::until("the queue is empty", LIMIT, || jobs(&probe) == 0);
    wait::until("the lock is free", LIMIT, || probe.get(KEY).is_none());
    assert_eq!(given(&probe), None);
    let late = click(service);
    assert_eq!(
        (late.status, late.body.as_str()),
        (200, "order 42 is made already\n")
    );
    assert_eq!(probe.get(KEY), None);
    assert!(shop.provider.next().is_none(), "a second charge");
}

#[test]
fn the_order_is_locked_until_its_job_is_done() {
    let shop = Surroundings::start();
    let service = handler(&shop);
    let probe = shop.redis.probe();
    let first = click(&service);
    assert_eq!(
        (first.status, first.body.as_str()),
        (202, "order 42 is queued\n")
    );
    // The job is still on the queue, and no worker has received it yet.
    assert_eq!(click(&service).status, 409);
    assert!(probe.get(KEY).is_some());
    let _worker = worker(&shop, "one");
    let charge = shop.provider.asked_for("42");
    // The lock outlives its ttl of five seconds, because the worker renews it.
    let (begun, ttl) = (std::time::Instant::now(), Duration::from_secs(5));
    wait::until("a ttl", LIMIT, || {
        assert!(probe.get(KEY).is_some(), "the lock has expired");
        ttl * 3 / 2 < begun.elapsed()
    });
    assert_eq!(click(&service).status, 409);
    charge.pay();
    assert_done(&shop, &service);
}

/// A first worker takes a job, and does not finish it for a long time. So the queue also gives the
/// job to a second worker, and only the lock prevents both from running the body at once. Then the
/// first worker dies.
#[test]
fn a_job_of_a_dead_worker_is_repeated_without_overlap() {
    let shop = Surroundings::start();
    let service = handler(&shop);
    let probe = shop.redis.probe();
    let mut first = worker(&shop, "one");
    assert_eq!(click(&service).status, 202);
    let charge = shop.provider.asked_for("42");
    let _second = worker(&shop, "two");
    wait::until("the queue gives the job to the second", LIMIT, || {
        assert!(shop.provider.next().is_none(), "two bodies at once");
        given(&probe).is_some_and(|(name, times)| name == "two" && 3 <= times)
    });
    assert!(shop.provider.next().is_none(), "two bodies at once");
    assert_eq!(click(&service).status, 409);
    let held = probe.get(KEY).expect("the first worker has the lock");
    first.kill();
    charge.wait_until_dropped();
    let again = shop.provider.asked_for("42");
    let other = probe.get(KEY).expect("the second worker has the lock");
    assert_ne!(held, other, "it has a lease of its own");
    assert_eq!(click(&service).status, 409);
    again.pay();
    assert_done(&shop, &service);
}

/// The lock expires before any worker receives the job, and a second click queues a second job.
#[test]
fn a_late_job_takes_the_expired_lock_again() {
    let shop = Surroundings::start();
    let service = handler(&shop);
    let probe = shop.redis.probe();
    assert_eq!(click(&service).status, 202);
    wait::until("the lock expires", LIMIT, || probe.get(KEY).is_none());
    assert_eq!(click(&service).status, 202);
    wait::until("the lock expires", LIMIT, || probe.get(KEY).is_none());
    assert_eq!(jobs(&probe), 2);
    let _worker = worker(&shop, "one");
    let charge = shop.provider.asked_for("42");
    assert_eq!(click(&service).status, 409);
    charge.pay();
    assert_done(&shop, &service);
}

#[test]
fn a_failed_payment_frees_the_lock_and_is_retried() {
    let shop = Surroundings::start();
    let service = handler(&shop);
    let probe = shop.redis.probe();
    let _worker = worker(&shop, "one");
    assert_eq!(click(&service).status, 202);
    shop.provider.asked_for("42").refuse();
    wait::until("the lock is free", LIMIT, || probe.get(KEY).is_none());
    assert!(!is_made(&service));
    shop.provider.asked_for("42").pay();
    assert_done(&shop, &service);
}

#[test]
fn a_stopping_worker_finishes_its_job() {
    let shop = Surroundings::start();
    let service = handler(&shop);
    let worker = worker(&shop, "one");
    assert_eq!(click(&service).status, 202);
    let charge = shop.provider.asked_for("42");
    worker.ask_to_stop();
    charge.pay();
    let ended = worker.wait();
    assert!(ended.status.success(), "{ended:?}");
    assert_eq!(ended.stdout, "worker one is ready\norder 42 is made\n");
    assert_done(&shop, &service);
}
