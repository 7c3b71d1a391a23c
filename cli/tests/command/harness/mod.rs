//! Runs the `leasehold` command, and finds and signals the processes that it starts.

pub(crate) mod family;
pub(crate) mod journal;
pub(crate) mod parent;

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use leasehold_tests::process::Leashed;
use leasehold_tests::wait;
use serde_json::Value;

/// Time limit for one step of a test. No step takes so long, even on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// Returns the command with the lock store `url`. The command does not inherit the variables that
/// it would read from the environment of the tests.
pub(crate) fn leasehold(url: &str) -> Command {
    let mut command = bare();
    // A busy machine may need more time than the default allows.
    command
        .env("LEASEHOLD_URL", url)
        .args(["--io-timeout", "10s"]);
    command
}

/// Returns the command without a lock store.
pub(crate) fn bare() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_leasehold"));
    for name in ["URL", "PASSWORD_FILE", "NAMESPACE", "KEY", "FENCE", "NAME"] {
        command.env_remove(format!("LEASEHOLD_{name}"));
    }
    command.stdin(Stdio::null());
    command
}

/// Returns `leasehold run KEY OPTIONS… -- sh -c SCRIPT`.
pub(crate) fn run(url: &str, key: &str, options: &[&str], script: &str) -> Command {
    let mut command = leasehold(url);
    command.args(["run", key]).args(options);
    command.args(["--", "sh", "-c", script]);
    command
}

/// Output and exit code of a finished command.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ended {
    pub(crate) fn new(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self {
            code: output.status.code(),
            out: text(&output.stdout),
            err: text(&output.stderr),
        }
    }

    /// Returns standard output as one JSON value.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Returns the lines of standard error, each a JSON value.
    pub(crate) fn events(&self) -> Vec<Value> {
        let lines = self.err.lines().map(serde_json::from_str);
        let events: Result<_, _> = lines.collect();
        events.unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Returns the event with this name.
    pub(crate) fn event(&self, name: &str) -> Value {
        let events = self.events();
        let found = events.into_iter().find(|event| event["event"] == name);
        found.unwrap_or_else(|| panic!("no event {name}: {self:?}"))
    }
}

/// Runs a command to its end.
pub(crate) fn ended(command: &mut Command) -> Ended {
    Ended::new(&command.output().expect("the command starts"))
}

/// A running command. Dropping this kills the command.
pub(crate) struct Running(Leashed);

impl Running {
    /// Starts a command, whose output [`wait`](Self::wait) returns.
    pub(crate) fn start(command: &mut Command) -> Self {
        Self::spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped()))
    }

    /// Starts a command that writes its errors to a file, so that a test can read them while the
    /// command runs.
    pub(crate) fn with_errors_in(file: &Path, command: &mut Command) -> Self {
        let errors = File::create(file).expect("the folder is writable");
        Self::spawn(command.stdout(Stdio::null()).stderr(errors))
    }

    fn spawn(command: &mut Command) -> Self {
        let child = command.spawn().expect("the command starts");
        Self(Leashed::new(child, None))
    }

    pub(crate) fn id(&self) -> i32 {
        i32::try_from(self.0.id()).expect("a process id")
    }

    /// Writes to the command's standard input, which must be a pipe.
    pub(crate) fn write(&mut self, text: &str) {
        let input = self.0.child().stdin.as_mut().expect("it is a pipe");
        input.write_all(text.as_bytes()).expect("it is open");
    }

    pub(crate) fn pause(&self) {
        self.0.pause();
    }

    pub(crate) fn resume(&self) {
        self.0.resume();
    }

    /// Kills the command (SIGKILL), but not the processes that the command has started.
    pub(crate) fn kill(&mut self) {
        self.0.kill();
    }

    pub(crate) fn signal(&self, signal: &str) {
        family::signal(self.id(), signal);
    }

    pub(crate) fn exited(&mut self) -> Option<ExitStatus> {
        self.0.exited()
    }

    pub(crate) fn wait(mut self) -> Ended {
        let mut status = None;
        wait::until("the command ends", LONG, || {
            status = self.0.exited();
            status.is_some()
        });
        let mut ended = Ended {
            code: status.and_then(|status| status.code()),
            out: String::new(),
            err: String::new(),
        };
        // Each read returns only after all writers have closed the pipe, even processes that the
        // command has left behind.
        let child = self.0.child();
        if let (Some(mut out), Some(mut err)) = (child.stdout.take(), child.stderr.take()) {
            out.read_to_string(&mut ended.out).expect("text");
            err.read_to_string(&mut ended.err).expect("text");
        }
        ended
    }
}

/// Quotes a text as an argument of a shell script.
pub(crate) fn quoted(text: impl AsRef<OsStr>) -> String {
    let text = text.as_ref().to_str().expect("text");
    assert!(!text.contains('\''), "{text}");
    format!("'{text}'")
}
