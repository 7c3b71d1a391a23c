//! `leasehold watch`, which prints each change of a lock.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{ChildStdout, Command, Stdio};

use leasehold_tests::process::Leashed;
use leasehold_tests::server::Server;
use leasehold_tests::{room, wait};
use serde_json::Value;

use crate::harness::journal::Journal;
use crate::harness::{LONG, Running, family, leasehold, run};

/// A running `watch`, and the reading end of its standard output.
struct Watching {
    process: Leashed,
    out: BufReader<ChildStdout>,
}

impl Watching {
    fn start(server: &Server, options: &[&str]) -> Self {
        let mut command = leasehold(&server.url());
        command.args(["watch", "--every", "50ms"]).args(options);
        command.stdout(Stdio::piped());
        let mut child = command.spawn().expect("the command starts");
        let out = child.stdout.take().expect("it is piped");
        Self {
            process: Leashed::new(child, None),
            out: BufReader::new(out),
        }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).expect("text");
        line
    }

    /// Waits for the end of the command, and returns its exit code.
    fn code(&mut self) -> Option<i32> {
        let mut status = None;
        wait::until("it ends", LONG, || {
            status = self.process.exited();
            status.is_some()
        });
        status.and_then(|status| status.code())
    }
}

/// Fails if `watch` omits a change of a lock or prints it twice, or if its exit code after ctrl-c
/// is not 0.
#[test]
fn each_change_is_printed_once() {
    let _room = room::enter();
    let server = Server::start();
    let journal = Journal::new();
    let mut text = Watching::start(&server, &[]);
    let mut json = Watching::start(&server, &["job:*", "--json"]);
    for _ in 0..2 {
        let script = format!("{}; {}", journal.note("ran"), journal.until("end"));
        let holder = Running::start(&mut run(&server.url(), "job:7", &[], &script));
        let line = text.line();
        assert!(line.contains("  job:7  exclusive  "), "{line}");
        assert!(
            line.contains(&format!("(pid {}), fence ", holder.id())),
            "{line}"
        );
        let change: Value = serde_json::from_str(&json.line()).expect("JSON");
        assert_eq!(change["key"], "job:7");
        assert_eq!(change["lock"]["holders"][0]["owner"]["pid"], holder.id());
        let store = format!("redis://{}", server.address());
        let asked = (Value::from("lock"), Value::from(store));
        assert_eq!(
            (&change["namespace"], &change["store"]),
            (&asked.0, &asked.1)
        );
        journal.open("end");
        assert_eq!(holder.wait().code, Some(0));
        let line = text.line();
        let place = format!("in namespace `lock` on redis://{}\n", server.address());
        assert!(line.ends_with(&format!("  job:7  free {place}")), "{line}");
        let change: Value = serde_json::from_str(&json.line()).expect("JSON");
        assert_eq!(
            (&change["key"], &change["lock"]),
            (&"job:7".into(), &Value::Null)
        );
        assert_eq!(
            (&change["namespace"], &change["store"]),
            (&asked.0, &asked.1)
        );
        let time = change["time"].as_str().expect("a text");
        assert!(humantime::parse_rfc3339(time).is_ok(), "{time}");
        journal.close("end");
    }
    for watching in [&mut text, &mut json] {
        let id = i32::try_from(watching.process.id()).expect("a process id");
        assert!(family::signal(id, "INT"));
        assert_eq!(watching.code(), Some(0));
        let mut rest = String::new();
        watching.out.read_to_string(&mut rest).expect("text");
        assert_eq!(rest, "", "one line for one change");
    }
}

/// Fails if `watch` keeps running after the reader of its output has closed the pipe.
#[test]
fn a_watch_ends_with_its_reader() {
    let server = Server::start();
    let Watching { process, out } = Watching::start(&server, &[]);
    drop(out);
    let mut process = process;
    let mut status = None;
    wait::until("it ends", LONG, || {
        status = process.exited();
        status.is_some()
    });
    assert_eq!(status.and_then(|status| status.code()), Some(0));
}

/// Fails if `watch` ends because the server restarts, or misses the changes during the restart.
#[test]
fn a_watch_survives_a_short_outage() {
    let _room = room::enter();
    let mut server = Server::start();
    let _: String = server
        .probe()
        .run(redis::cmd("SET").arg("lock:one").arg("x"));
    let mut watching = Watching::start(&server, &[]);
    assert!(watching.line().contains("  one  exclusive  another client"));
    server.restart();
    let _: String = server
        .probe()
        .run(redis::cmd("SET").arg("lock:two").arg("x"));
    let (first, second) = (watching.line(), watching.line());
    assert!(first.contains("  one  free"), "{first}");
    assert!(second.contains("  two  exclusive"), "{second}");
}

/// Fails if `watch` on a terminal prints a new state below the previous one instead of over it, or
/// still shows a deleted lock.
#[test]
fn a_watch_on_a_terminal_is_drawn_in_place() {
    let _room = room::enter();
    let server = Server::start();
    let _: String = server
        .probe()
        .run(redis::cmd("SET").arg("lock:one").arg("x"));
    // This Python program runs `watch` on a terminal, and prints `shown` once the lock appears.
    // After the test has deleted the lock, it waits until the terminal shows no lock, and presses
    // ctrl-c.
    let reader = "\
import os, pty, sys
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
seen = b''
while b'1 lock matches' not in seen: seen += os.read(terminal, 4096)
print('shown', b'another client' in seen, flush=True)
sys.stdin.readline()
while b'0 locks match' not in seen: seen += os.read(terminal, 4096)
os.write(terminal, b'\\x03')
try:
    while True:
        more = os.read(terminal, 4096)
        if not more: break
        seen += more
except OSError: pass
_, status = os.waitpid(pid, 0)
print('code', os.waitstatus_to_exitcode(status))
print('home', b'\\x1b[H' in seen, 'newest', b'one' in seen.split(b'\\x1b[H')[-1])
";
    let program = env!("CARGO_BIN_EXE_leasehold");
    let mut command = Command::new("python3");
    command.args(["-c", reader, program, "watch", "--every", "50ms"]);
    command.env("LEASEHOLD_URL", server.url());
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("python3 is installed");
    let mut out = BufReader::new(child.stdout.take().expect("it is piped"));
    let mut line = String::new();
    out.read_line(&mut line).expect("text");
    assert_eq!(line, "shown True\n");
    let _: u32 = server.probe().run(redis::cmd("DEL").arg("lock:one"));
    drop(child.stdin.take());
    let mut rest = String::new();
    out.read_to_string(&mut rest).expect("text");
    assert_eq!(rest, "code 0\nhome True newest False\n");
    child.wait().expect("it ends");
}
