use leasehold_tests::wait;

use super::harness::provider::Charge;
use super::harness::service::{Ended, Service};
use super::harness::{LIMIT, Surroundings};

const PROGRAM: &str = env!("CARGO_BIN_EXE_cron_job");
const DAY: &str = "2030-01-31";
const KEY: &str = "lock:job:charge:2030-01-31";

/// Starts a machine (a process) that gets the job. Returns the machine and its first charge.
fn machine_with_the_job(shop: &Surroundings) -> (Service, Charge) {
    shop.run_to_charge(PROGRAM, &[DAY], "ada:2030-01-31")
}

/// Starts another machine, and checks that it skips the job.
fn assert_skips(shop: &Surroundings) {
    let machine = shop.run_to_end(PROGRAM, &[DAY]);
    assert_printed(&machine, "skipped, another machine has the job");
}

/// Confirms all charges of the machine that runs the job: one for each customer.
fn pay_all(shop: &Surroundings, ada: Charge) {
    ada.pay();
    for customer in ["grace", "edsger"] {
        shop.provider.asked_for(&format!("{customer}:{DAY}")).pay();
    }
}

fn assert_printed(machine: &Ended, outcome: &str) {
    assert!(machine.status.success(), "{machine:?}");
    assert_eq!(machine.stdout, format!("{DAY}: {outcome}\n"));
}

#[test]
fn one_machine_runs_the_job_and_later_ones_skip_it() {
    let shop = Surroundings::start();
    let (first, ada) = machine_with_the_job(&shop);
    assert_skips(&shop);
    pay_all(&shop, ada);
    assert_printed(&first.wait(), "charged 3 customers");
    assert_skips(&shop); // this machine starts late, and `cooldown` still keeps the lock
    assert!(shop.provider.next().is_none(), "a second run");
}

#[test]
fn the_next_machine_runs_the_job_of_a_dead_one() {
    let shop = Surroundings::start();
    let (mut first, ada) = machine_with_the_job(&shop);
    first.kill();
    drop(ada);
    let probe = shop.redis.probe();
    wait::until("its lease ends", LIMIT, || probe.get(KEY).is_none());
    let (second, ada) = machine_with_the_job(&shop);
    pay_all(&shop, ada);
    assert_printed(&second.wait(), "charged 3 customers");
}

#[test]
fn the_next_start_runs_a_failed_job() {
    let shop = Surroundings::start();
    let (first, ada) = machine_with_the_job(&shop);
    ada.refuse();
    let ended = first.wait();
    assert!(!ended.status.success(), "cron sends mail");
    assert!(ended.stderr.contains("refused"), "{ended:?}");
    let (second, ada) = machine_with_the_job(&shop);
    pay_all(&shop, ada);
    assert_printed(&second.wait(), "charged 3 customers");
}

#[test]
fn the_job_does_not_run_without_redis() {
    let mut shop = Surroundings::start();
    shop.redis.kill();
    let ended = Service::start(&mut shop.command(PROGRAM, &[DAY])).wait();
    assert!(!ended.status.success(), "cron sends mail");
    assert!(ended.stderr.contains("unavailable"), "{ended:?}");
    assert!(shop.provider.next().is_none(), "a charge without a lock");
}
