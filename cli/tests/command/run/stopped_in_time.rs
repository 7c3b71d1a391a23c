//! The command and all its processes are gone before another process has the lock. This holds even
//! if `leasehold run` or its guardian, the process that ends the command in time, is killed or
//! stalls.
//!
//! The command and its grandchildren repeatedly append a line to a file. The next holder of the
//! lock appends its own lines to the same file. After the next holder's first line, the previous
//! holder's processes must not append anything.

use std::fs;
use std::process::Command;

use leasehold_tests::proxy::{Mode, Proxy};
use leasehold_tests::server::Server;
use leasehold_tests::{room, wait};

use crate::harness::family::{self, guardian, guardian_and_warden, is_alive};
use crate::harness::journal::Journal;
use crate::harness::parent::started_by;
use crate::harness::{Ended, LONG, Running, bare, ended, quoted, run};

/// The ttl of the first holder. Without renewals, the guardian kills the holder's processes when a
/// tenth of the ttl, half a second, is left. Even on a busy machine, they end within this time.
const TTL: &str = "5s";

/// Returns a command that ignores SIGTERM and starts two more processes. One is in the command's
/// group. The other has its own session, and its parent has ended.
fn stubborn(journal: &Journal) -> String {
    let beat = journal.beat("first");
    let daemon = quoted(journal.file("daemon"));
    fs::write(journal.file("daemon"), &beat).expect("the folder is writable");
    let note = journal.note("command $$");
    format!("trap '' TERM; ({beat}) & (setsid sh {daemon} &) ; {note}; {beat}")
}

/// The running command of the first holder, and the next holder, which queues.
struct Scene {
    journal: Journal,
    first: Running,
    command: i32,
    next: Running,
}

impl Scene {
    /// Starts the first holder with the server at `first`. Then starts the next holder with the
    /// server at `next`.
    fn begin(first: &str, next: &str) -> Self {
        Self::begin_with(next, |script| run(first, "job", &["--ttl", TTL], script))
    }

    fn begin_with(next: &str, first: impl FnOnce(&str) -> Command) -> Self {
        let journal = Journal::new();
        let script = stubborn(&journal);
        let first = Running::start(&mut first(&script));
        let command = journal.process("command");
        journal.wait_for_many("first", 10);
        let script = journal.beat_until("next", "end");
        let options = ["--ttl", TTL, "--wait", "60s"];
        let next = Running::start(&mut run(next, "job", &options, &script));
        Self {
            journal,
            first,
            command,
            next,
        }
    }

    /// Waits until the next holder has had the lock for a while. Fails if a process of the first
    /// holder still appends lines. Returns the first holder.
    fn end(self) -> Running {
        // Each process appends lines at the same pace. So a living process of the first holder
        // would append about a hundred lines meanwhile.
        self.journal.wait_for_many("next", 100);
        self.journal.has_in_order("first", "next");
        assert!(!is_alive(self.command));
        self.journal.open("end");
        let next = self.next.wait();
        assert_eq!(next.code, Some(0), "{next:?}");
        self.first
    }
}

fn on_one_server() -> (Server, Scene) {
    let server = Server::start();
    let scene = Scene::begin(&server.url(), &server.url());
    (server, scene)
}

/// Fails if a command still runs when the lease of its killed `leasehold run` ends.
#[test]
fn the_holder_is_killed() {
    let _room = room::enter();
    let (_server, mut scene) = on_one_server();
    scene.first.kill();
    scene.end();
}

/// Fails if a command keeps running while `leasehold run` is suspended and renews nothing.
#[test]
fn the_holder_is_suspended() {
    let _room = room::enter();
    let (_server, scene) = on_one_server();
    scene.first.pause();
    let first = scene.end();
    first.resume();
    let first = first.wait();
    assert_eq!(first.code, Some(137), "{first:?}");
    assert!(
        first.err.contains("the lease on `job` is lost"),
        "{first:?}"
    );
}

/// Fails if a command keeps running while its holder cannot reach the server.
#[test]
fn the_holder_is_cut_off() {
    let _room = room::enter();
    let server = Server::start();
    let proxy = Proxy::start(server.address());
    let scene = Scene::begin(&proxy.url(), &server.url());
    proxy.set(Mode::BlackHole);
    let first = scene.end().wait();
    assert_eq!(first.code, Some(137), "{first:?}");
    assert!(
        first.err.contains("the lease on `job` is lost"),
        "{first:?}"
    );
}

/// Fails if the guardian's death ends only the command itself, or the lock is released before the
/// other processes are gone.
#[test]
fn the_guardian_is_killed() {
    let _room = room::enter();
    let (_server, scene) = on_one_server();
    family::signal(guardian(scene.first.id()), "KILL");
    let first = scene.end().wait();
    assert_eq!(first.code, Some(137), "{first:?}");
    assert!(
        first.err.contains("guards the command was killed"),
        "{first:?}"
    );
}

/// Fails if a command keeps running while its guardian is suspended and the server is unreachable.
/// In this case, `leasehold run` itself must end the command. Also fails if it does not report
/// this.
#[test]
fn the_guardian_is_suspended_and_the_holder_is_cut_off() {
    let _room = room::enter();
    let server = Server::start();
    let proxy = Proxy::start(server.address());
    let scene = Scene::begin(&proxy.url(), &server.url());
    family::stop(guardian(scene.first.id()));
    proxy.set(Mode::BlackHole);
    let first = scene.end().wait();
    assert_eq!(first.code, Some(137), "{first:?}");
    assert!(
        first.err.contains("the lease on `job` is lost"),
        "{first:?}"
    );
}

/// A guardian is suspended past the deadline that it received, while `leasehold run` renews the
/// lease and sends new deadlines. Fails if the resumed guardian stops the command at the old
/// deadline.
#[test]
fn a_resumed_guardian_obeys_the_newest_deadline() {
    let _room = room::enter();
    let (server, journal) = (Server::start(), Journal::new());
    let script = journal.beat_until("beat", "end");
    let holder = Running::start(&mut run(&server.url(), "job", &["--ttl", TTL], &script));
    journal.wait_for("beat");
    let guardian = guardian(holder.id());
    family::stop(guardian);
    // Two lines are at least 10 ms apart, so the ttl of 5 s is over after 500 lines.
    let lines = journal.lines().len();
    journal.wait_for_many("beat", lines + 520);
    assert!(family::signal(guardian, "CONT"));
    journal.open("end");
    let ended = holder.wait();
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
}

/// Fails if a suspended guardian does not wake up when `leasehold run` dies.
#[test]
fn the_guardian_is_suspended_and_the_holder_is_killed() {
    let _room = room::enter();
    let (_server, mut scene) = on_one_server();
    family::stop(guardian(scene.first.id()));
    scene.first.kill();
    scene.end();
}

/// An inner `leasehold run` dies while its guardian is suspended. The outer guardian then adopts
/// the inner warden, the process that must wake the inner guardian. Fails if the inner guardian
/// stays suspended.
#[test]
fn a_nested_guardian_is_suspended_and_its_holder_is_killed() {
    let _room = room::enter();
    let (server, journal) = (Server::start(), Journal::new());
    fs::write(journal.file("script"), stubborn(&journal)).expect("the folder is writable");
    let inner = format!(
        "{}; exec {} --io-timeout 10s run job --ttl {TTL} -- sh {}",
        journal.note("holder $$"),
        env!("CARGO_BIN_EXE_leasehold"),
        quoted(journal.file("script"))
    );
    let outer = Running::start(&mut run(&server.url(), "outer", &[], &inner));
    let holder = journal.process("holder");
    journal.wait_for_many("first", 10);
    let script = journal.beat_until("next", "end");
    let options = ["--ttl", TTL, "--wait", "60s"];
    let next = Running::start(&mut run(&server.url(), "job", &options, &script));
    family::stop(guardian(holder));
    assert!(family::signal(holder, "KILL"));
    journal.wait_for_many("next", 100);
    journal.has_in_order("first", "next");
    journal.open("end");
    assert_eq!(next.wait().code, Some(0));
    assert_eq!(outer.wait().code, Some(137));
}

/// Fails if a suspended command continues its work long after the lock is lost.
#[test]
fn the_command_and_the_holder_are_suspended() {
    let _room = room::enter();
    let (_server, scene) = on_one_server();
    family::stop(scene.command);
    scene.first.pause();
    let command = scene.command;
    let first = scene.end();
    // The guardian keeps the ended command as a zombie until all processes are gone. Until then, a
    // signal to the command's id succeeds.
    wait::until("the command is gone", LONG, || {
        !family::signal(command, "CONT")
    });
    first.resume();
    assert_eq!(first.wait().code, Some(137));
}

/// Fails if processes started by a command outlive both the holder of the lock and the guardian.
#[test]
fn the_holder_and_the_guardian_are_killed() {
    let _room = room::enter();
    let (_server, mut scene) = on_one_server();
    let guardian = guardian(scene.first.id());
    scene.first.kill();
    assert!(family::signal(guardian, "KILL"));
    scene.end();
}

/// Fails if processes left by a killed guardian survive while `leasehold run` is suspended.
#[test]
fn the_holder_is_suspended_and_the_guardian_is_killed() {
    let _room = room::enter();
    let (_server, scene) = on_one_server();
    let guardian = guardian(scene.first.id());
    scene.first.pause();
    assert!(family::signal(guardian, "KILL"));
    let first = scene.end();
    first.resume();
    assert_eq!(first.wait().code, Some(137));
}

/// All processes in the session of `leasehold run` are killed, as by `pkill -KILL --session`. Fails
/// if a process that the command has started in another session survives.
#[test]
fn the_session_is_killed() {
    let _room = room::enter();
    let server = Server::start();
    let url = server.url();
    let scene = Scene::begin_with(&url, |script| {
        let command = run(&url, "job", &["--ttl", TTL], script);
        started_by("os.setsid()", &command)
    });
    for process in family::session(scene.first.id()) {
        family::signal(process, "KILL");
    }
    scene.end();
}

/// Fails if the death of a warden (which ends the processes that a killed guardian has left) ends
/// the command, or changes its exit code.
#[test]
fn the_warden_is_killed() {
    let _room = room::enter();
    let (server, journal) = (Server::start(), Journal::new());
    let script = format!("{}; {}; exit 3", journal.note("ran"), journal.until("end"));
    let holder = Running::start(&mut run(&server.url(), "job", &[], &script));
    journal.wait_for("ran");
    let (_, warden) = guardian_and_warden(holder.id());
    assert!(family::signal(warden, "KILL"));
    wait::until("the warden is gone", LONG, || !is_alive(warden));
    journal.open("end");
    let ended = holder.wait();
    assert_eq!((ended.code, ended.err.as_str()), (Some(3), ""), "{ended:?}");
}

/// Fails if a command outlives the killed holder of the lock when the warden has been killed
/// before.
#[test]
fn the_holder_and_the_warden_are_killed() {
    let _room = room::enter();
    let (_server, mut scene) = on_one_server();
    let (_, warden) = guardian_and_warden(scene.first.id());
    assert!(family::signal(warden, "KILL"));
    scene.first.kill();
    scene.end();
}

/// Fails if processes started by a command outlive both the guardian and the warden.
#[test]
fn the_guardian_and_the_warden_are_killed() {
    let _room = room::enter();
    let (_server, scene) = on_one_server();
    let (guardian, warden) = guardian_and_warden(scene.first.id());
    assert!(family::signal(warden, "KILL") && family::signal(guardian, "KILL"));
    let first = scene.end().wait();
    assert_eq!(first.code, Some(137), "{first:?}");
}

/// Fails if the command itself outlives all processes that could end it. The processes started by
/// it are out of reach in this case.
#[test]
fn the_holder_the_guardian_and_the_warden_are_killed() {
    let _room = room::enter();
    let server = Server::start();
    let journal = Journal::new();
    let script = format!("{}; exec sleep 600", journal.note("command $$"));
    let command = &mut run(&server.url(), "job", &["--ttl", TTL], &script);
    let mut holder = Running::start(command);
    let command = journal.process("command");
    let (guardian, warden) = guardian_and_warden(holder.id());
    holder.pause();
    assert!(family::signal(warden, "KILL") && family::signal(guardian, "KILL"));
    holder.kill();
    wait::until("the command is gone", LONG, || !is_alive(command));
}

/// Runs the launcher, the process that becomes the command, with settings like those from the
/// guardian. The launcher refuses if `latest` (in nanoseconds since the machine started) has
/// passed, or if its parent is not the process `parent`.
fn launched(parent: u32, latest: u64) -> Ended {
    let mut command = bare();
    let settings = format!("{parent},{parent},{latest},false,false");
    ended(command.args(["%launcher", &settings, "echo", "ran"]))
}

/// All processes of `leasehold run` can stall before the command starts. Fails if the command then
/// starts after the end of its lease, or although its guardian is gone.
#[test]
fn a_command_does_not_begin_after_its_lease() {
    let us = std::process::id();
    let late = launched(us, 1);
    assert_eq!((late.code, late.out.as_str()), (Some(75), ""), "{late:?}");
    let in_time = launched(us, u64::MAX);
    assert_eq!((in_time.code, in_time.out.as_str()), (Some(0), "ran\n"));
    let orphan = launched(1, u64::MAX);
    assert_eq!(
        (orphan.code, orphan.out.as_str()),
        (Some(71), ""),
        "{orphan:?}"
    );
}
