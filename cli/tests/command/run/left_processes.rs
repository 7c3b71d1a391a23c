//! Processes that a command leaves behind when it ends.

use std::fs::read_to_string;

use leasehold_tests::server::Server;
use leasehold_tests::{room, wait};

use crate::harness::family::{is_alive, signal};
use crate::harness::journal::Journal;
use crate::harness::{LONG, Running, ended, quoted, run};

/// A command has ended, but a background job of its shell still runs. Fails if the lock is released
/// before this job ends. Runs with and without the shell's job control (`set -m`), which moves the
/// job into a separate process group.
#[test]
fn the_lock_is_held_until_the_last_process_ends() {
    let _room = room::enter();
    let server = Server::start();
    for shell in ["", "set -m; "] {
        let journal = Journal::new();
        let background = format!("{}; {}", journal.until("end"), journal.note("background"));
        let script = format!("{shell}({background}) & {}; exit 3", journal.note("ran"));
        let script = format!("exec bash -c {}", quoted(script.replace('\'', "")));
        let (errors, command) = (
            journal.file("errors"),
            &mut run(&server.url(), "job", &[], &script),
        );
        let mut holder = Running::with_errors_in(&errors, command);
        journal.wait_for("ran");
        wait::until("the command has ended", LONG, || {
            let errors = read_to_string(&errors).expect("the file is there");
            errors.contains("the lock is held until")
        });
        let second = ended(&mut run(&server.url(), "job", &[], "true"));
        assert_eq!(second.code, Some(75), "{shell}: {second:?}");
        assert!(holder.exited().is_none());
        journal.open("end");
        let ended = holder.wait();
        assert_eq!(ended.code, Some(3), "{shell}: {ended:?}");
        assert!(journal.lines().contains(&"background".to_owned()));
    }
}

/// A command starts a service in a new session and ends. Fails if the lock stays held until the
/// service ends, or if the service is killed.
#[test]
fn a_service_outlives_the_command() {
    let _room = room::enter();
    let server = Server::start();
    let journal = Journal::new();
    let service = quoted(journal.file("service"));
    let text = format!("{}; exec sleep 600", journal.note("service $$"));
    std::fs::write(journal.file("service"), text).expect("the folder is writable");
    let file = journal.file("journal");
    let wait = format!(
        "until grep -qs service {}; do sleep 0.01; done",
        quoted(&file)
    );
    let script = format!("setsid sh {service} </dev/null >/dev/null 2>&1 & {wait}");
    let ended = ended(&mut run(&server.url(), "job", &[], &script));
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
    let service = journal.process("service");
    assert!(is_alive(service));
    assert!(signal(service, "KILL"));
}

/// A running command leaves processes, which the guardian adopts and which then end. Fails if they
/// stay zombies until the command ends.
#[test]
fn ended_orphans_leave_no_zombies() {
    let _room = room::enter();
    let server = Server::start();
    let journal = Journal::new();
    let orphan = format!(
        "(sh -c 'echo orphan $$ >> {}' &)",
        journal.file("journal").display()
    );
    let script = format!(
        "{orphan}; {}; {}",
        journal.note("ran"),
        journal.until("end")
    );
    let holder = Running::start(&mut run(&server.url(), "job", &[], &script));
    journal.wait_for("ran");
    let orphan = journal.process("orphan ");
    wait::until("the orphan is gone", LONG, || {
        !std::fs::exists(format!("/proc/{orphan}")).expect("/proc is readable")
    });
    journal.open("end");
    assert_eq!(holder.wait().code, Some(0));
}

/// The background jobs of a command. Kills the jobs when it is dropped, because those of a failed
/// test would run forever.
struct Jobs(Vec<i32>);

impl Jobs {
    fn run(&self) -> bool {
        self.0.iter().any(|job| is_alive(*job))
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        for job in self.0.iter().filter(|job| is_alive(**job)) {
            signal(*job, "KILL");
        }
    }
}

/// A command has ended, but its background jobs start orphans without a pause, and then
/// `leasehold run` is killed. Fails if the guardian only collects the orphans, and does not report
/// the jobs or lets them run on. The ttl is long, so the jobs must end before the lease does.
#[test]
fn a_storm_of_orphans_is_stopped() {
    let _room = room::enter();
    let server = Server::start();
    let journal = Journal::new();
    let note = journal.note("job $$");
    let job = quoted(journal.file("job"));
    let storm = format!("{note}; while :; do (true &) ; done");
    std::fs::write(journal.file("job"), storm).expect("the folder is writable");
    let script = format!("for i in 1 2 3 4; do sh {job} & done");
    let errors = journal.file("errors");
    let command = &mut run(&server.url(), "job", &["--ttl", "120s"], &script);
    let mut holder = Running::with_errors_in(&errors, command);
    journal.wait_for_many("job", 4);
    let lines = journal.lines();
    let jobs = lines.iter().filter_map(|line| line.strip_prefix("job "));
    let jobs = Jobs(jobs.map(|id| id.parse().expect("a process")).collect());
    wait::until("the jobs are reported", LONG, || {
        let errors = read_to_string(&errors).expect("the file is there");
        errors.contains("the lock is held until")
    });
    assert!(jobs.run());
    holder.kill();
    wait::until("the jobs are stopped", LONG / 3, || !jobs.run());
}
