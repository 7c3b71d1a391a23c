//! Clients of other languages as processes: the programs of `benches/peers`, and their protocol.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::Deserialize;

use super::ground::Ground;
use super::r26_foreign_clients::{STAY, TTL};
use super::sheet::Sheet;
use crate::process::Leashed;
use crate::python;

/// How long a client may take to connect.
const START: Duration = Duration::from_secs(60);
/// From the word to the beginning.
const LEAD: u64 = 50_000_000;
/// Until a client that is asked for its sections has told of them, beyond its patience.
const END: Duration = Duration::from_secs(30);
/// A record: task, asked, entered, left, released.
const FIELDS: usize = 5;

/// One section of another client, in stamps of `leasehold::__test::now`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Section {
    pub(super) asked: u64,
    pub(super) entered: u64,
    pub(super) left: u64,
}

/// Where a client goes, and for how long.
#[derive(Debug)]
pub(super) struct Visit {
    pub(super) url: String,
    pub(super) key: String,
    pub(super) time: Duration,
    pub(super) folder: PathBuf,
}

/// A client's program.
pub(super) struct Peer {
    name: &'static str,
    program: Command,
}

impl Peer {
    /// The clients that `scripts/chaos` installs.
    pub(super) fn installed(ground: &Ground) -> Vec<Self> {
        let names = ["redis_py", "node_redlock", "redsync", "redislock"];
        let peers = target(ground).join("bench-peers");
        let installed = names.map(|name| Self {
            name,
            program: Command::new(program(&peers.join(name))),
        });
        installed.into()
    }

    /// redis-py, with the interpreter that the interoperation tests have.
    pub(super) fn redis_py(ground: &Ground) -> Self {
        let client =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../benches/peers/redis_py/client.py");
        let mut program = Command::new(python::interpreter(target(ground)));
        program.arg(client);
        Self {
            name: "redis_py",
            program,
        }
    }

    /// Starts it; it waits for [`go`](Client::go).
    pub(super) fn start(mut self, visit: &Visit) -> Client {
        let file = visit.folder.join(self.name);
        let log = File::create(file.with_extension("log")).expect("a log can be made");
        let millis = |span: Duration| span.as_millis().to_string();
        // It waits for its last section for as long as it may take.
        let patience = visit.time + END;
        let mut child = self
            .program
            .args([&visit.url, &format!("key:{}", visit.key), "1"])
            .args([
                millis(TTL),
                "0".to_owned(),
                millis(visit.time),
                millis(STAY),
            ])
            .args(["0".to_owned(), millis(patience)])
            .arg(&file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap_or_else(|error| panic!("{} does not start: {error}", self.name));
        let input = child.stdin.take().expect("piped");
        let output = lines(BufReader::new(child.stdout.take().expect("piped")));
        let client = Client {
            name: self.name,
            input,
            output,
            file,
            _process: Leashed::new(child, None),
        };
        assert_eq!(client.line(START), "ready", "{}", client.name);
        client
    }
}

/// The folder that the harness was built into.
fn target(ground: &Ground) -> &Path {
    let folder = ground.program.ancestors().nth(2);
    folder.expect("a program lies in a folder of its profile")
}

/// What starts a client.
fn program(folder: &Path) -> PathBuf {
    if let Ok(reason) = fs::read_to_string(folder.join("not-installed")) {
        panic!("{}: {}", folder.display(), reason.trim());
    }
    let program = folder.join("run");
    assert!(
        program.exists(),
        "{} is not there; `scripts/chaos` installs it",
        program.display()
    );
    program
}

/// A running client. Dropping it kills the process.
pub(super) struct Client {
    name: &'static str,
    input: ChildStdin,
    output: Receiver<String>,
    file: PathBuf,
    _process: Leashed,
}

/// What a client says at its end.
#[derive(Debug, Deserialize)]
struct Said {
    lost: u64,
    errors: Vec<String>,
}

impl Client {
    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// Lets it begin.
    pub(super) fn go(&mut self) {
        writeln!(self.input, "go {}", monotonic() + LEAD).expect("it listens");
    }

    /// Waits for its end; what it has written down.
    pub(super) fn sections(self, visit: &Visit, sheet: &Sheet) -> Vec<Section> {
        let text = self.line(visit.time + END * 2);
        let said: Said = serde_json::from_str(&text).expect("what it says is JSON");
        sheet.check(said.lost == 0, || {
            format!(
                "{}: {} never served, {:?}",
                self.name, said.lost, said.errors
            )
        });
        let bytes = fs::read(&self.file).expect("it has written its records");
        let ahead = ahead();
        let records = bytes.chunks_exact(FIELDS * 8);
        records.map(|record| Section::read(record, ahead)).collect()
    }

    fn line(&self, limit: Duration) -> String {
        let line = self.output.recv_timeout(limit);
        line.unwrap_or_else(|error| {
            let log = fs::read_to_string(self.file.with_extension("log"));
            panic!(
                "{} said nothing ({error}): {}",
                self.name,
                log.unwrap_or_default()
            )
        })
    }
}

impl Section {
    fn read(record: &[u8], ahead: u64) -> Self {
        let mut fields = record.chunks_exact(8).map(|bytes| {
            let bytes = bytes.try_into().expect("eight bytes");
            ahead + u64::from_le_bytes(bytes)
        });
        let mut field = || fields.next().expect("five fields");
        let _task = field();
        Self {
            asked: field(),
            entered: field(),
            left: field(),
        }
    }
}

/// The lines of a pipe, as they come.
fn lines(pipe: impl BufRead + Send + 'static) -> Receiver<String> {
    let (send, receive) = channel();
    std::thread::spawn(move || {
        for line in pipe.lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                return;
            }
        }
    });
    receive
}

/// By how much the clock of the history is ahead of the one that every language can read. Of several readings the one that took
/// the shortest time.
fn ahead() -> u64 {
    let readings = (0..1_000).map(|_| {
        let (before, ours, after) = (monotonic(), leasehold::__test::now(), monotonic());
        (after - before, ours - before)
    });
    readings.min().map_or(0, |(_, ahead)| ahead)
}

/// `CLOCK_MONOTONIC` in nanoseconds.
fn monotonic() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanos = u64::try_from(time.tv_nsec).unwrap_or_default();
    seconds * 1_000_000_000 + nanos
}
