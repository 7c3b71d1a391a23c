//! A fail-over of the Redis master while `leasehold run` runs a command.

use leasehold_tests::room;
use leasehold_tests::sentinel::Deployment;

use crate::harness::family::is_alive;
use crate::harness::journal::Journal;
use crate::harness::{Running, run};

/// A replica replaces the Redis master within the lease of a command. Fails if the command is
/// stopped, or if another process gets the lock.
#[test]
fn a_fail_over_within_the_lease_is_survived() {
    let _room = room::enter();
    let mut deployment = Deployment::start();
    let journal = Journal::new();
    let script = format!("{}; {}", journal.note("ran"), journal.until("end"));
    let command = &mut run(&deployment.url(), "job", &["--ttl", "60s"], &script);
    let holder = Running::start(command);
    journal.wait_for("ran");
    deployment.fail_over();
    let second = run(&deployment.url(), "job", &[], "true").output();
    assert_eq!(second.expect("it starts").status.code(), Some(75));
    journal.open("end");
    let ended = holder.wait();
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
}

/// A fail-over takes longer than the lease of a command. Another process then gets the lock from
/// the new master. Fails if the first command still runs when the next command has started.
#[test]
fn a_fail_over_longer_than_the_lease_ends_the_command() {
    let _room = room::enter();
    let deployment = Deployment::start();
    let journal = Journal::new();
    let script = format!(
        "trap '' TERM; {}; {}",
        journal.note("command $$"),
        journal.beat("first")
    );
    let url = deployment.url();
    let first = Running::start(&mut run(&url, "job", &["--ttl", "2s"], &script));
    let command = journal.process("command");
    // The master is paused until another server has replaced it.
    let old = deployment.named();
    deployment.pause(old);
    deployment.wait_for_fail_over(old);
    let script = journal.beat_until("next", "end");
    let options = ["--ttl", "5s", "--wait", "60s"];
    let next = Running::start(&mut run(&url, "job", &options, &script));
    journal.wait_for_many("next", 100);
    journal.has_in_order("first", "next");
    assert!(!is_alive(command));
    journal.open("end");
    let (first, next) = (first.wait(), next.wait());
    assert_eq!(
        (first.code, next.code),
        (Some(137), Some(0)),
        "{first:?} {next:?}"
    );
    deployment.resume(old);
}
