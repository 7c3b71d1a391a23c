//! A service in a separate process.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{ChildStderr, ChildStdout, Command, ExitStatus, Stdio};

use leasehold_tests::process::Leashed;
use leasehold_tests::wait;

use super::LIMIT;

/// A running program. It is killed when this value is dropped, or when the process of the test
/// dies.
#[derive(Debug)]
pub(crate) struct Service {
    process: Leashed,
    stdout: BufReader<ChildStdout>,
    stderr: ChildStderr,
    address: String,
}

/// Result of an ended program.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Service {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("cargo built the service");
        Self {
            stdout: BufReader::new(child.stdout.take().expect("stdout is piped")),
            stderr: child.stderr.take().expect("stderr is piped"),
            process: Leashed::new(child, None),
            address: String::new(),
        }
    }

    /// Starts a program, and waits until it prints its address or ends.
    pub(crate) fn listening(command: &mut Command) -> Result<Self, Ended> {
        let mut service = Self::start(command);
        let mut line = String::new();
        let read = service.stdout.read_line(&mut line);
        read.expect("stdout is readable");
        let Some(address) = line.trim().strip_prefix("listening on http://") else {
            return Err(service.wait());
        };
        address.clone_into(&mut service.address);
        Ok(service)
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.process.exited().is_some()
    }

    pub(crate) fn kill(&mut self) {
        self.process.kill();
    }

    /// Sends SIGTERM.
    pub(crate) fn ask_to_stop(&self) {
        // Uses the shell's built-in `kill`, because not every system has a program `kill`.
        let status = Command::new("sh")
            .args(["-c", "kill -TERM \"$0\"", &self.process.id().to_string()])
            .status();
        assert!(status.expect("there is a shell").success());
    }

    /// Waits until the program has ended, and reads its output.
    pub(crate) fn wait(mut self) -> Ended {
        let mut status = None;
        wait::until("the service ends", LIMIT, || {
            status = self.process.exited();
            status.is_some()
        });
        let mut text = (String::new(), String::new());
        let read = self.stdout.read_to_string(&mut text.0);
        read.expect("stdout is readable");
        let read = self.stderr.read_to_string(&mut text.1);
        read.expect("stderr is readable");
        Ended {
            status: status.expect("it has ended"),
            stdout: text.0,
            stderr: text.1,
        }
    }
}
