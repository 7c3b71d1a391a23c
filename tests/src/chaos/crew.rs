//! A run of the harness: a folder with one history, and the worker processes that write notes to
//! this history.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::time::Duration;

use leasehold::__test::now;

use super::job::{Job, Lane};
use crate::oracle::{self, History, Note, Reader, Report};
use crate::process::Leashed;
use crate::wait;

/// Time limit for a worker to connect, and for its end after [`Hand::ask_to_end`], even during
/// network faults.
const END: Duration = Duration::from_secs(25);

/// Settings of glibc's allocator for a process whose resident memory is measured. With them, freed
/// memory returns to the system at once, and all threads share one heap. Without them, the heap of
/// each thread would grow in steps of 132 KiB and stay at its peak size.
const NOTHING_KEPT: [(&str, &str); 5] = [
    ("MALLOC_ARENA_MAX", "1"),
    ("MALLOC_MMAP_THRESHOLD_", "4096"),
    ("MALLOC_MMAP_MAX_", "65536"),
    ("MALLOC_TOP_PAD_", "0"),
    ("MALLOC_TRIM_THRESHOLD_", "4096"),
];

/// A run: its history, and the program of its workers.
#[derive(Debug)]
pub struct Crew {
    program: PathBuf,
    folder: PathBuf,
    history: History,
    seed: u64,
}

impl Crew {
    /// Starts a history in `folder`. Creates the folder, or empties an existing one. `what` names
    /// the run.
    ///
    /// # Panics
    ///
    /// Panics if the folder cannot be created.
    pub fn new(program: &Path, folder: &Path, what: &str, seed: u64) -> Self {
        // The folder may not exist, so an error is ignored.
        let _ = fs::remove_dir_all(folder);
        fs::create_dir_all(folder.join("ledger")).expect("a folder can be made");
        let history = History::open(&folder.join("history.jsonl"));
        history.note(&Note::Run {
            what: what.to_owned(),
            seed,
        });
        Self {
            program: program.to_owned(),
            folder: folder.to_owned(),
            history,
            seed,
        }
    }

    /// Returns a job that makes the calls of `lanes`, with default settings.
    pub fn job(&self, url: &str, lanes: Vec<Lane>) -> Job {
        Job {
            url: url.to_owned(),
            history: self.history.path().to_owned(),
            ledger: self.ledger(),
            seed: self.seed,
            io_timeout_ms: 1_000,
            make_way_ms: None,
            gate: None,
            gauge: None,
            threads: 2,
            idle: false,
            one_pool: false,
            telemetry: None,
            lanes,
        }
    }

    /// Starts a process for a job. `bug` names the seeded bug to switch on in the process, if any.
    ///
    /// # Panics
    ///
    /// Panics if the program does not start.
    pub fn spawn(&self, job: &Job, bug: Option<&str>) -> Hand {
        let mut command = Command::new(&self.program);
        command.env_remove("LEASEHOLD_SEEDED_BUG");
        if let Some(bug) = bug {
            command.env("LEASEHOLD_SEEDED_BUG", bug);
        }
        if job.gauge.is_some() {
            command.envs(NOTHING_KEPT);
        }
        let log = self.folder.join("workers.log");
        let log = fs::OpenOptions::new().create(true).append(true).open(log);
        let mut child = command
            .arg("worker")
            .arg(serde_json::to_string(job).expect("a job is JSON"))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log.expect("a log can be made"))
            .spawn()
            .expect("the worker program starts");
        let input = child.stdin.take();
        Hand {
            process: Leashed::new(child, None),
            input,
        }
    }

    /// Starts a process. After the process has connected, calls `prepare` and then allows the
    /// process to make its first call.
    ///
    /// # Panics
    ///
    /// Panics if the process does not connect.
    pub fn spawn_gated(&self, mut job: Job, bug: Option<&str>, prepare: impl FnOnce()) -> Hand {
        let gate = self.folder.join("gate");
        job.gate = Some(gate.clone());
        let [ready, go] = ["ready", "go"].map(|name| gate.with_extension(name));
        // If the files of an earlier process still existed, neither this function nor the new
        // process would wait for the other.
        for file in [&ready, &go] {
            let _ = fs::remove_file(file);
        }
        let hand = self.spawn(&job, bug);
        wait::until("the worker connects", END, || ready.exists());
        prepare();
        fs::write(go, "").expect("the folder is writable");
        hand
    }

    /// Appends a note to the history.
    pub fn note(&self, note: &Note) {
        self.history.note(note);
    }

    /// Records an injected fault in the history.
    pub fn fault(&self, kind: &str) {
        self.note(&Note::Fault {
            kind: kind.to_owned(),
            at: now(),
        });
    }

    /// Returns a reader that follows the history from its start.
    ///
    /// # Panics
    ///
    /// Panics if the file is gone.
    pub fn watch(&self) -> Watch {
        Watch {
            reader: Reader::open(self.history.path()).expect("the history is there"),
        }
    }

    /// Makes the oracle check the history.
    ///
    /// # Panics
    ///
    /// Panics if the history cannot be read.
    pub fn report(&self) -> Report {
        oracle::check_file(self.history.path()).expect("the history is there")
    }

    /// Returns the folder with all files of the run.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the folder of the resources that the locks protect.
    pub fn ledger(&self) -> PathBuf {
        self.folder.join("ledger")
    }

    /// Returns the path of the history.
    pub fn history(&self) -> &Path {
        self.history.path()
    }

    /// Removes all files of the run. Use this only if the history has no violations.
    pub fn remove(self) {
        // An error is ignored, because the folder is temporary.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A worker process. Dropping it kills the process.
#[derive(Debug)]
pub struct Hand {
    process: Leashed,
    input: Option<ChildStdin>,
}

impl Hand {
    /// Returns the process, to stop or kill it.
    pub fn process(&mut self) -> &mut Leashed {
        &mut self.process
    }

    /// Returns the process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// True if the process has ended.
    pub fn has_ended(&mut self) -> bool {
        self.process.exited().is_some()
    }

    /// Requests the process to end, by closing its standard input.
    pub fn ask_to_end(&mut self) {
        self.input = None;
    }

    /// Requests the process to end, waits for its end, and kills it after a time limit. Returns
    /// true if the process ended successfully.
    pub fn finish(&mut self) -> bool {
        self.ask_to_end();
        let ended = wait::try_until(END, || self.has_ended()).is_some();
        let well = ended && self.process.exited().is_some_and(|status| status.success());
        self.process.kill();
        well
    }
}

/// A reader that follows a history while it grows.
#[derive(Debug)]
pub struct Watch {
    reader: Reader,
}

impl Watch {
    /// Returns the next note, or `None` if the history has no further note yet.
    ///
    /// # Panics
    ///
    /// Panics if the file cannot be read.
    pub fn next_note(&mut self) -> Option<Note> {
        self.reader.next_note().expect("the history can be read")
    }

    /// Waits for the first note that `wanted` accepts, and skips the notes before it. Returns
    /// `None` if no such note appears within `limit`.
    pub fn wait_for(&mut self, limit: Duration, wanted: impl Fn(&Note) -> bool) -> Option<Note> {
        let mut found = None;
        wait::try_until(limit, || {
            while found.is_none() {
                match self.next_note() {
                    Some(note) if wanted(&note) => found = Some(note),
                    Some(_) => {}
                    None => break,
                }
            }
            found.is_some()
        });
        found
    }

    /// Waits until `count` more bodies have begun. Returns false if the next one does not begin
    /// within `limit`.
    pub fn entered(&mut self, limit: Duration, count: usize) -> bool {
        let entered = |note: &Note| matches!(note, Note::Enter { .. });
        (0..count).all(|_| self.wait_for(limit, entered).is_some())
    }
}
