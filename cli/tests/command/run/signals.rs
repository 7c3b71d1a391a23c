//! Signals to `leasehold run`, which are passed on to the command.

use std::fs;
use std::process::{Command, Stdio};

use leasehold_tests::server::Server;
use leasehold_tests::{room, wait};

use crate::harness::journal::Journal;
use crate::harness::parent::started_by;
use crate::harness::{LONG, Running, family, run};

/// Python code that resets three signals to their defaults. The tests themselves may run with these
/// signals ignored, for example under `nohup`.
const DEFAULTS: &str = "\
for one in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT): signal.signal(one, signal.SIG_DFL)";

/// Fails if a signal to `leasehold run` does not end the command, or if the exit code does not show
/// the signal.
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
        // `leasehold run` passes the signal on to the shell and its child `sleep`. Neither has a
        // trap, so both die.
        let script = format!("{}; sleep 600", journal.note("ran"));
        let command = run(&server.url(), signal, &[], &script);
        let holder = Running::start(&mut started_by(DEFAULTS, &command));
        journal.wait_for("ran");
        holder.signal(signal);
        let ended = holder.wait();
        assert_eq!(ended.code, Some(code), "{signal}: {ended:?}");
    }
}

/// A terminal sends WINCH when its size changes, and TSTP to stop a program. A shell sends CONT to
/// continue the program. Fails if `leasehold run` does not pass such a signal on to the command.
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
    // A trap interrupts `wait`.
    let script = format!(
        "{}{}; sleep 600 & while :; do wait; done",
        traps.concat(),
        journal.note("ran")
    );
    // Only a parent in another process group can let a suspended program continue. Without one,
    // TSTP would have no effect.
    let command = run(&server.url(), "job", &[], &script);
    let holder = Running::start(&mut started_by("os.setpgid(0, 0)", &command));
    journal.wait_for("ran");
    holder.signal("WINCH");
    journal.wait_for("WINCH");
    // TSTP suspends `leasehold run` until CONT. The trap has to run before: a CONT discards a TSTP
    // that is still pending.
    holder.signal("TSTP");
    journal.wait_for("TSTP");
    let stat = format!("/proc/{}/stat", holder.id());
    wait::until("it stands still", LONG, || {
        fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") T "))
    });
    holder.signal("CONT");
    journal.wait_for("CONT");
    holder.signal("TERM");
    assert_eq!(holder.wait().code, Some(143));
}

/// A stopped process handles a signal only after it continues. Fails if the lock stays held because
/// a stopped command does not get the signal that ends `leasehold run`.
#[test]
fn a_stopped_command_handles_a_signal_to_end() {
    let _room = room::enter();
    let server = Server::start();
    for (signal, code) in [("HUP", 129), ("INT", 130), ("QUIT", 131), ("TERM", 143)] {
        let journal = Journal::new();
        let script = format!("{}; exec sleep 600", journal.note("command $$"));
        let command = run(&server.url(), signal, &[], &script);
        let holder = Running::start(&mut started_by(DEFAULTS, &command));
        family::stop(journal.process("command"));
        holder.signal(signal);
        let ended = holder.wait();
        assert_eq!(ended.code, Some(code), "{signal}: {ended:?}");
    }
}

/// The command needs half a second to handle SIGTERM. Fails if the command is killed in this time,
/// or if its exit code is lost.
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

/// Fails if SIGTERM does not end a `leasehold run` that waits in the queue, or if its command runs
/// nevertheless.
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

/// A terminal sends SIGHUP when it is closed. Fails if SIGHUP ends `nohup leasehold run` or its
/// command.
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
