//! The exit code of `leasehold run`: the exit code of the command, or a code that shows why the
//! command did not run.

use std::net::TcpListener;

use leasehold_tests::server::Server;
use leasehold_tests::{room, wait};
use redis::cmd;

use crate::harness::journal::Journal;
use crate::harness::{Ended, LONG, Running, ended, leasehold, run};

/// Fails if `leasehold run` does not return the exit code of its command: for a command ended by a
/// signal, 128 plus the signal's number.
#[test]
fn the_exit_code_of_the_command_is_kept() {
    let server = Server::start();
    for (script, code) in [
        ("exit 0", 0),
        ("exit 7", 7),
        ("exit 255", 255),
        ("kill -TERM $$", 143),
        ("kill -KILL $$", 137),
    ] {
        let ended = ended(&mut run(&server.url(), "job", &[], script));
        assert_eq!(ended.code, Some(code), "{script}: {ended:?}");
        assert_eq!(ended.err, "", "{script}");
    }
}

/// The program of a command does not exist or cannot be executed. Fails if the lock stays held, or
/// if the exit code and the error do not show the reason.
#[test]
fn a_failed_start_frees_the_lock_and_has_its_own_code() {
    let server = Server::start();
    for (program, code, text) in [
        ("/no/such/program", 127, "No such file"),
        (
            "no-such-program",
            127,
            "`no-such-program` cannot be started",
        ),
        ("/etc/passwd", 126, "Permission denied"),
        ("/", 126, "Permission denied"),
    ] {
        let mut command = leasehold(&server.url());
        let ended = ended(command.args(["run", "job", "--", program]));
        assert_eq!(ended.code, Some(code), "{ended:?}");
        assert!(ended.err.contains(text), "{ended:?}");
        let mut probe = server.probe().namespace("lock:");
        assert!(!exists(&mut probe, "lock:job"), "the lock is free");
    }
}

fn exists(probe: &mut leasehold_tests::redis_probe::RedisProbe, key: &str) -> bool {
    let count: u32 = probe.run(cmd("EXISTS").arg(key));
    count > 0
}

/// Another process holds the lock. Fails if `leasehold run` runs its command, or does not exit with
/// code 75. Also fails if a lock with another key or namespace is refused.
#[test]
fn a_lock_held_elsewhere_has_its_own_exit_code() {
    let _room = room::enter();
    let server = Server::start();
    let journal = Journal::new();
    let script = format!("{}; {}", journal.note("ran"), journal.until("end"));
    let holder = Running::start(&mut run(&server.url(), "job", &[], &script));
    journal.wait_for("ran");
    let second = ended(&mut run(&server.url(), "job", &[], "echo ran"));
    assert_eq!((second.code, second.out.as_str()), (Some(75), ""));
    assert!(second.err.contains("the lock `job` is held"), "{second:?}");
    assert!(second.err.contains("set `--wait`"), "{second:?}");
    let patient = ended(&mut run(
        &server.url(),
        "job",
        &["--wait", "200ms"],
        "echo ran",
    ));
    assert_eq!((patient.code, patient.out.as_str()), (Some(75), ""));
    assert!(
        patient.err.contains("did not become free within 2"),
        "{patient:?}"
    );
    let other = ended(&mut run(&server.url(), "other", &[], "echo ran"));
    assert_eq!((other.code, other.out.as_str()), (Some(0), "ran\n"));
    let elsewhere = ["--namespace", "other"];
    let other = ended(&mut run(&server.url(), "job", &elsewhere, "echo ran"));
    assert_eq!((other.code, other.out.as_str()), (Some(0), "ran\n"));
    journal.open("end");
    assert_eq!(holder.wait().code, Some(0));
}

/// The lock store is unavailable. Fails if `leasehold run` runs its command, or does not exit with
/// code 69.
#[test]
fn an_unavailable_store_has_its_own_exit_code() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    drop(listener);
    let away = ended(&mut run(
        &format!("redis://{address}/"),
        "job",
        &[],
        "echo ran",
    ));
    assert_eq!((away.code, away.out.as_str()), (Some(69), ""), "{away:?}");
    assert!(
        away.err.contains("the lock store is unavailable"),
        "{away:?}"
    );
}

/// The system refuses a thread, because its stack of 1 PiB does not fit into the address space.
/// Fails if `leasehold` reports a wrong command line (exit code 64), or runs the command.
#[test]
fn a_refused_thread_has_its_own_exit_code() {
    let server = Server::start();
    let stack = (1_u64 << 50).to_string();
    let mut list = leasehold(&server.url());
    list.arg("ls");
    for mut command in [run(&server.url(), "job", &[], "echo ran"), list] {
        let refused = ended(command.env("RUST_MIN_STACK", &stack));
        assert_eq!(
            (refused.code, refused.out.as_str()),
            (Some(71), ""),
            "{refused:?}"
        );
        assert!(
            refused.err.contains("limit of processes or threads"),
            "{refused:?}"
        );
    }
}

/// A command runs for longer than its ttl. Fails if its lease is not renewed. Also fails if the
/// guardian, which ends the command at the end of its lease, is not notified of the renewal.
#[test]
fn a_long_command_keeps_its_lease() {
    let _room = room::enter();
    let server = Server::start();
    let ended = ended(&mut run(&server.url(), "job", &["--ttl", "5s"], "sleep 11"));
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
}

/// A lock is deleted while its command runs, and the stopped command exits with code 0. Fails if
/// `leasehold run` does not exit with code 70.
#[test]
fn a_lost_lease_has_its_own_exit_code() {
    let _room = room::enter();
    let server = Server::start();
    // The command ends with exit code 0 when it receives SIGTERM.
    let journal = Journal::new();
    let script = format!(
        "trap 'exit 0' TERM; {}; {}",
        journal.note("ran"),
        journal.beat("beat")
    );
    let holder = Running::start(&mut run(&server.url(), "job", &["--ttl", "20s"], &script));
    journal.wait_for("ran");
    let _: u32 = server.probe().run(cmd("DEL").arg("lock:job"));
    let ended = holder.wait();
    assert_eq!(ended.code, Some(70), "{ended:?}");
    assert!(
        ended.err.contains("the lease on `job` is lost"),
        "{ended:?}"
    );
}

/// A lock is deleted, and its command ends before the next renewal. Fails if `leasehold run` does
/// not report the lost lock, or does not exit with code 70.
#[test]
fn a_lock_lost_before_the_end_is_reported() {
    let _room = room::enter();
    let server = Server::start();
    let journal = Journal::new();
    let script = format!("{}; {}", journal.note("ran"), journal.until("end"));
    let holder = Running::start(&mut run(&server.url(), "job", &["--ttl", "1h"], &script));
    journal.wait_for("ran");
    let _: u32 = server.probe().run(cmd("DEL").arg("lock:job"));
    journal.open("end");
    let ended = holder.wait();
    assert_eq!(ended.code, Some(70), "{ended:?}");
    assert!(
        ended.err.contains("was gone when the command ended"),
        "{ended:?}"
    );
}

/// Fails if a hanging command is not ended after `--max-hold`, or if the error does not give this
/// reason.
#[test]
fn a_hanging_command_is_ended() {
    let _room = room::enter();
    let server = Server::start();
    let options = ["--ttl", "5s", "--max-hold", "5s"];
    let ended = ended(&mut run(&server.url(), "job", &options, "sleep 600"));
    assert_eq!(ended.code, Some(143), "{ended:?}");
    assert!(ended.err.contains("--max-hold of 5s is over"), "{ended:?}");
}

/// Fails if an event of `leasehold run --json` is not one line of JSON, or lacks a field.
#[test]
fn as_json() {
    let server = Server::start();
    let ran = ended(&mut run(
        &server.url(),
        "job",
        &["--json"],
        "echo ran; exit 3",
    ));
    assert_eq!((ran.code, ran.out.as_str()), (Some(3), "ran\n"));
    let acquired = ran.event("acquired");
    assert_eq!(acquired["key"], "job");
    assert!(acquired["fence"].as_u64() > Some(0), "{acquired}");
    assert!(acquired["waited_ms"].is_u64(), "{acquired}");
    let end = ran.event("ended");
    assert_eq!(
        (end["exit_code"].as_u64(), end["lost"].as_bool()),
        (Some(3), Some(false))
    );
    let mut command = leasehold(&server.url());
    let missing = ended(command.args(["--json", "run", "job", "--", "no-such-program"]));
    assert_eq!(missing.event("not_started")["program"], "no-such-program");
    let options = ["--json", "--ttl", "5s", "--max-hold", "5s"];
    let hung = ended(&mut run(&server.url(), "job", &options, "sleep 600"));
    assert_eq!(hung.event("stopping")["reason"], "max_hold");
}

/// A command does not run: its lock is held elsewhere, a signal ends the wait, or an option is
/// wrong. Fails if the last line of `leasehold run --json` is not the event `ended`. Also fails if
/// `--quiet` prints it for a held lock.
#[test]
fn an_end_without_the_command_is_reported_as_json() {
    let _room = room::enter();
    let (server, journal) = (Server::start(), Journal::new());
    let script = format!("{}; {}", journal.note("ran"), journal.until("end"));
    let holder = Running::start(&mut run(&server.url(), "job", &[], &script));
    journal.wait_for("ran");
    let json = |options: &[&str]| run(&server.url(), "job", options, "echo ran");
    let held = ended(&mut json(&["--json"]));
    assert_eq!(held.event("error")["exit_code"], 75);
    reports_its_end(&held, 75);
    reports_its_end(&ended(&mut json(&["--json", "--ttl", "200ms"])), 64);
    let quiet = ended(&mut json(&["--json", "--quiet"]));
    assert_eq!((quiet.code, quiet.err.as_str()), (Some(75), ""));
    let queued = Running::start(&mut json(&["--json", "--wait", "60s"]));
    let probe = server.probe();
    wait::until("it queues", LONG, || {
        let waiting: String = probe.run(cmd("TYPE").arg("lock:%leasehold:queue:lock:job"));
        waiting != "none"
    });
    queued.signal("TERM");
    reports_its_end(&queued.wait(), 143);
    journal.open("end");
    assert_eq!(holder.wait().code, Some(0));
}

fn reports_its_end(ended: &Ended, code: i32) {
    assert_eq!((ended.code, &*ended.out), (Some(code), ""), "{ended:?}");
    let events = ended.events();
    let last = events.last().expect("an event");
    assert_eq!(last["event"], "ended", "{ended:?}");
    assert_eq!(last["exit_code"], code, "{ended:?}");
    assert_eq!(last["lost"], false, "{ended:?}");
}
