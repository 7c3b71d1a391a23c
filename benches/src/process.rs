//! A client process, as the harness sees it.

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use leasehold_tests::process::Leashed;
use leasehold_tests::wait;

use crate::client::Report;

/// Maximum time from the start of a client to `ready`. The first start of a JVM is slow.
const START: Duration = Duration::from_mins(2);

/// A running client. Dropping it kills the process.
pub(crate) struct Client {
    process: Leashed,
    input: ChildStdin,
    output: Receiver<String>,
    errors: Receiver<String>,
}

/// Returns the CPU time of the threads that run in a process now, to the nanosecond. If the system
/// does not report the times of threads, returns the result of [`cpu`] instead. The time of ended
/// threads is missing, so this suits only processes in which no thread ends during a measurement.
pub(crate) fn cpu_of_threads(process: u32) -> Option<Duration> {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).ok()?;
    let used = |thread: std::io::Result<std::fs::DirEntry>| {
        let text = std::fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        let nanos = text.split_ascii_whitespace().next()?.parse().ok()?;
        Some(Duration::from_nanos(nanos))
    };
    threads
        .map(used)
        .sum::<Option<Duration>>()
        .or_else(|| cpu(process))
}

/// Returns the CPU time of a server with its child processes, because PostgreSQL starts a process
/// for each connection. This is the time of the running threads of all these processes, plus that
/// of the ended child processes.
pub(crate) fn cpu_of_server(process: u32) -> Option<Duration> {
    let children = std::fs::read_to_string(format!("/proc/{process}/task/{process}/children"));
    let children = children.unwrap_or_default();
    let children = children.split_ascii_whitespace().flat_map(str::parse);
    let of_children = children.filter_map(cpu_of_threads).sum::<Duration>();
    let [_, of_ended] = cpu_times(process)?;
    cpu_of_threads(process).map(|own| own + of_children + of_ended)
}

/// Returns the CPU time used by a process, or `None` if there is no `/proc`.
pub(crate) fn cpu(process: u32) -> Option<Duration> {
    cpu_times(process).map(|[own, _]| own)
}

/// Returns the CPU time used by a process, and that of its ended children.
fn cpu_times(process: u32) -> Option<[Duration; 2]> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The fields begin after the program's name, which is in parentheses and may contain any
    // character.
    let (_, fields) = text.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(11).map(str::parse);
    let mut time = || {
        let user: u64 = fields.next()?.ok()?;
        let system: u64 = fields.next()?.ok()?;
        // Linux reports these times in hundredths of a second on all usual architectures.
        Some(Duration::from_millis((user + system) * 10))
    };
    Some([time()?, time()?])
}

impl Client {
    /// Starts the process.
    pub(crate) fn start(mut command: Command) -> Result<Self, String> {
        let child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| {
                format!(
                    "{} does not start: {error}",
                    command.get_program().display()
                )
            })?;
        let mut process = Leashed::new(child, None);
        let child = process.child();
        let taken = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(input), Some(output), Some(errors)) = taken else {
            return Err("a client has no pipes".to_owned());
        };
        Ok(Self {
            process,
            input,
            output: lines(output),
            errors: lines(errors),
        })
    }

    /// Waits until the client prints `ready`, which means that it is connected.
    pub(crate) fn ready(&self) -> Result<(), String> {
        match self.line(START)?.as_str() {
            "ready" => Ok(()),
            other => Err(format!("a client printed {other:?} instead of ready")),
        }
    }

    /// Sends the client its start time.
    pub(crate) fn go(&mut self, start: u64) -> Result<(), String> {
        let sent = writeln!(self.input, "go {start}").and_then(|()| self.input.flush());
        sent.map_err(|error| format!("a client is gone: {error}"))
    }

    /// Reads the client's report at its end.
    pub(crate) fn report(&self, limit: Duration) -> Result<Report, String> {
        let line = self.line(limit)?;
        serde_json::from_str(&line).map_err(|error| format!("a client printed {line:?}: {error}"))
    }

    /// Waits until the process has ended.
    pub(crate) fn ended(&mut self, limit: Duration) -> Result<(), String> {
        let ended = wait::try_until(limit, || self.process.exited().is_some());
        ended
            .map(|_| ())
            .ok_or_else(|| "a client does not end".to_owned())
    }

    /// Returns the CPU time of the client; see [`cpu`].
    pub(crate) fn cpu(&self) -> Option<Duration> {
        cpu(self.process.id())
    }

    fn line(&self, limit: Duration) -> Result<String, String> {
        self.output
            .recv_timeout(limit)
            .map_err(|error| match error {
                RecvTimeoutError::Timeout => format!("a client printed nothing for {limit:.0?}"),
                RecvTimeoutError::Disconnected => format!("a client ended: {}", self.last_words()),
            })
    }

    /// Returns the last lines of the client's standard error.
    fn last_words(&self) -> String {
        let until = Instant::now() + Duration::from_secs(1);
        let mut words = Vec::new();
        while let Ok(line) = self
            .errors
            .recv_timeout(until.saturating_duration_since(Instant::now()))
        {
            words.push(line);
        }
        words[words.len().saturating_sub(3)..].join(" / ")
    }
}

/// Reads the lines of a pipe as they arrive, so that the pipe never fills.
fn lines(pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (send, receive) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            // If the receiver is gone, the error is ignored. The thread continues to read, so that
            // the writer is not blocked.
            let _ = send.send(line);
        }
    });
    receive
}
