//! Clients other than leasehold: the crate rslock, and the programs of `benches/peers`, which
//! follow the protocol in that folder's README.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::Deserialize;

use super::ground::Ground;
use super::r26_rslock;
use super::r26_visit::{STAY, Section, TTL, Visit};
use super::sheet::Sheet;
use crate::process::Leashed;
use crate::python;

/// Time limit for a client to connect.
const START: Duration = Duration::from_secs(60);
/// The time from the command `go` to the start of the work, in nanoseconds.
const LEAD: u64 = 50_000_000;
/// Time limit for a client's last section after its working time. The client may take as long again
/// to report its sections.
const END: Duration = Duration::from_secs(30);
/// Number of fields in a client's record of a section: task, asked, entered, left, released.
const FIELDS: usize = 5;

/// The program of a client.
pub(super) struct Program {
    name: &'static str,
    /// The start of the client's command: the program, and its first argument if needed. Empty for
    /// rslock, which runs inside the harness.
    words: Vec<PathBuf>,
}

impl Program {
    /// Returns all clients, which `scripts/chaos` installs.
    pub(super) fn all(ground: &Ground) -> Vec<Self> {
        let names = ["redis_py", "node_redlock", "redsync", "redislock"];
        let peers = target(ground).join("bench-peers");
        let installed = names.map(|name| Self {
            name,
            words: vec![program(&peers.join(name))],
        });
        installed.into_iter().chain([Self::rslock()]).collect()
    }

    /// Returns the clients available to the test suite.
    pub(super) fn of_the_suite(ground: &Ground) -> Vec<Self> {
        let python = python::interpreter(target(ground)).to_owned();
        let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
        let redis_py = Self {
            name: "redis_py",
            words: vec![python, tests.join("../benches/peers/redis_py/client.py")],
        };
        vec![redis_py, Self::rslock()]
    }

    fn rslock() -> Self {
        Self {
            name: "rslock",
            words: Vec::new(),
        }
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// Starts a client, which then waits for [`work`](Client::work).
    pub(super) fn start(&self, visit: &Visit) -> Client {
        Client {
            name: self.name,
            process: (!self.words.is_empty()).then(|| Process::start(self, visit)),
        }
    }
}

/// A client, ready to work.
pub(super) struct Client {
    name: &'static str,
    process: Option<Process>,
}

impl Client {
    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// Makes the client take the key again and again. Returns its sections.
    pub(super) fn work(self, visit: &Visit, sheet: &Sheet) -> Vec<Section> {
        match self.process {
            Some(process) => process.work(visit, sheet),
            None => r26_rslock::work(visit),
        }
    }
}

/// Returns Cargo's target folder, which contains the program of the harness.
fn target(ground: &Ground) -> &Path {
    let folder = ground.program.ancestors().nth(2);
    folder.expect("a program lies in a folder of its profile")
}

/// Returns the path of the file that starts a client.
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

/// A client's process. Dropping it kills the process.
struct Process {
    name: &'static str,
    input: ChildStdin,
    output: Receiver<String>,
    file: PathBuf,
    _leash: Leashed,
}

/// A client's report at its end.
#[derive(Debug, Deserialize)]
struct Printed {
    lost: u64,
    errors: Vec<String>,
}

impl Process {
    fn start(program: &Program, visit: &Visit) -> Self {
        let file = visit.folder.join(program.name);
        let log = File::create(file.with_extension("log")).expect("a log can be made");
        let mut child = Command::new(&program.words[0])
            .args(&program.words[1..])
            .args(arguments(visit))
            .arg(&file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap_or_else(|error| panic!("{} does not start: {error}", program.name));
        let input = child.stdin.take().expect("piped");
        let output = lines(BufReader::new(child.stdout.take().expect("piped")));
        let process = Self {
            name: program.name,
            input,
            output,
            file,
            _leash: Leashed::new(child, None),
        };
        assert_eq!(process.line(START), "ready", "{}", process.name);
        process
    }

    fn work(mut self, visit: &Visit, sheet: &Sheet) -> Vec<Section> {
        writeln!(self.input, "go {}", monotonic() + LEAD).expect("it listens");
        let text = self.line(visit.time + END * 2);
        let printed: Printed = serde_json::from_str(&text).expect("its output is JSON");
        sheet.check(printed.lost == 0, || {
            format!(
                "{}: {} never served, {:?}",
                self.name, printed.lost, printed.errors
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
                "{} printed nothing ({error}): {}",
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

/// Returns all arguments of a client except the last, the file for its records.
fn arguments(visit: &Visit) -> [String; 9] {
    let millis = |span: Duration| span.as_millis().to_string();
    // The longest time that a client may wait for any one section.
    let patience = visit.time + END;
    [
        visit.url.clone(),
        format!("key:{}", visit.key),
        "1".to_owned(),
        millis(TTL),
        "0".to_owned(),
        millis(visit.time),
        millis(STAY),
        millis(visit.pause),
        millis(patience),
    ]
}

/// Returns a channel that receives each line of a pipe.
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

/// Returns the number of nanoseconds by which the history's clock is ahead of `CLOCK_MONOTONIC`.
/// The clients use `CLOCK_MONOTONIC`, because any language can read it. Of 1,000 readings, uses the
/// fastest one, because it is the most exact.
fn ahead() -> u64 {
    let readings = (0..1_000).map(|_| {
        let (before, ours, after) = (monotonic(), leasehold::__test::now(), monotonic());
        (after - before, ours - before)
    });
    readings.min().map_or(0, |(_, ahead)| ahead)
}

/// Returns `CLOCK_MONOTONIC` in nanoseconds.
fn monotonic() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanos = u64::try_from(time.tv_nsec).unwrap_or_default();
    seconds * 1_000_000_000 + nanos
}
