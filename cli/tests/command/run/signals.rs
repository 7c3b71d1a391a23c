//! Signals to `leasehold run`, which are passed on to the command.

use std::fs;
use std::process::{Command, Stdio};

use leasehold_tests::server::Server;
use leasehold_tests::{room, wait};

use crate::harness::journal::Journal;
use crate::harness::parent::started_by;
use crate::harness::{LONG, Running, run};

/// Sets signals to their defaults, in case the tests themselves run with ignored signals (`nohup`).
const DEFAULTS: &str = "\
for one in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT): signal.signal(one, signal.SIG_DFL)";

/// Fails if a signal does not reach the command, or ends only `leasehold run`.
#[test]
fn each_signal_is_passed_on() {
    let _room = room::enter();
    let server = Server::start();
    for (signal, code) in [
        ("HUP", 129),
        ("INT", 130),
        ("QUIT", 131),
        ("ABRT", 134),
        ("USR1", 138),
        ("USR2", 140),
        ("ALRM", 142),
        ("TERM", 143),
        ("XCPU", 152),
        ("PWR", 158),
    ] {
        let journal = Journal::new();
        // The signal reaches the shell and its child `sleep`. Without a trap, both die from it.
        let script = format!("{}; sleep 600", journal.note("ran"));
        let command = run(&server.url(), signal, &[], &script);
        let holder = Running::start(&mut started_by(DEFAULTS, &command));
        journal.wait_for("ran");
        holder.signal(signal);
        let ended = holder.wait();
        assert_eq!(ended.code, Some(code), "{signal}: {ended:?}");
    }
}

/// Fails if a signal of a terminal does not reach the command. The terminal sends such signals when
/// its size changes, and to stop and to continue a program.
#[test]
fn signals_of_a_terminal_are_passed_on() {
    let _room = room::enter();
    let server = Server::start();
    let journal = Journal::new();
    let signals = ["WINCH", "TSTP", "CONT"];
    let traps = signals.map(|signal| {
        let note = journal.note(signal);
        format!("on{signal}() {{ {note}; }}; trap on{signal} {signal}; ")
    });
    let script = format!(
        "{}{}; {}",
        traps.concat(),
        journal.note("ran"),
        journal.until("end")
    );
    let holder = Running::start(&mut run(&server.url(), "job", &[], &script));
    journal.wait_for("ran");
    holder.signal("WINCH");
    journal.wait_for("WINCH");
    // `leasehold run` and the child of the shell stop until SIGCONT arrives.
    holder.signal("TSTP");
    let stat = format!("/proc/{}/stat", holder.id());
    wait::until("it stands still", LONG, || {
        fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") T "))
    });
    holder.signal("CONT");
    journal.wait_for("TSTP");
    journal.wait_for("CONT");
    journal.open("end");
    assert_eq!(holder.wait().code, Some(0));
}

/// Fails if a command is cut short while it handles a signal, or its exit code is lost.
#[test]
fn the_command_can_finish_handling_a_signal() {
    let _room = room::enter();
    let server = Server::start();
    let journal = Journal::new();
    let script = format!(
        "trap 'sleep 0.5; {}; exit 9' TERM; {}; {}",
        journal.note("cleaned"),
        journal.note("ran"),
        journal.beat("beat")
    );
    let holder = Running::start(&mut run(&server.url(), "job", &[], &script));
    journal.wait_for("ran");
    holder.signal("TERM");
    assert_eq!(holder.wait().code, Some(9));
    assert!(journal.lines().contains(&"cleaned".to_owned()));
}

/// Fails if a queued process cannot be interrupted, or then runs its command.
#[test]
fn a_queued_run_can_be_interrupted() {
    let _room = room::enter();
    let server = Server::start();
    let journal = Journal::new();
    let script = format!("{}; {}", journal.note("ran"), journal.until("end"));
    let holder = Running::start(&mut run(&server.url(), "job", &[], &script));
    journal.wait_for("ran");
    let options = ["--wait", "60s"];
    let second = Running::start(&mut run(
        &server.url(),
        "job",
        &options,
        &journal.note("second"),
    ));
    // The key's queue exists on the server while the process queues.
    let probe = server.probe();
    leasehold_tests::wait::until("it queues", crate::harness::LONG, || {
        let queue = "lock:%leasehold:queue:lock:job";
        let waiting: String = probe.run(redis::cmd("TYPE").arg(queue));
        waiting != "none"
    });
    second.signal("TERM");
    let second = second.wait();
    assert_eq!(
        (second.code, second.err.as_str()),
        (Some(143), ""),
        "{second:?}"
    );
    journal.open("end");
    assert_eq!(holder.wait().code, Some(0));
    assert!(!journal.lines().contains(&"second".to_owned()));
}

/// Fails if `nohup leasehold run` ends when its terminal is closed.
#[test]
fn an_ignored_hangup_stays_ignored() {
    let _room = room::enter();
    let server = Server::start();
    let journal = Journal::new();
    let script = format!("{}; {}", journal.note("ran"), journal.until("end"));
    let inner = run(&server.url(), "job", &[], &script);
    let mut command = Command::new("nohup");
    command.arg(inner.get_program()).args(inner.get_args());
    command
        .env("LEASEHOLD_URL", server.url())
        .stdin(Stdio::null());
    let holder = Running::start(&mut command);
    journal.wait_for("ran");
    holder.signal("HUP");
    holder.signal("WINCH");
    journal.open("end");
    let ended = holder.wait();
    assert_eq!(ended.code, Some(0), "{ended:?}");
}
