//! Worker processes: annotated functions in a process that a test can stop and kill.

use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::process::Leashed;
use crate::recorder::Section;

/// The job of a worker: its only argument, as JSON.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Job {
    /// The store.
    pub url: String,
    /// What to lock.
    pub key: String,
    /// The ttl, in milliseconds.
    pub ttl_ms: u64,
    /// How long to queue, in milliseconds.
    pub wait_ms: u64,
    /// Whether the lease is renewed.
    pub watchdog: bool,
    /// What happens inside the lock.
    pub scenario: Scenario,
}

/// What happens inside the lock.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Scenario {
    /// Once: stays inside until a line comes over standard input, and reports every poll.
    Hold,
    /// Many times: adds one to the number in a file by reading it, sleeping, and writing it back.
    Count {
        /// The file.
        file: String,
        /// How many times.
        times: u32,
        /// How long to sleep in between, in microseconds.
        pause_us: u64,
    },
    /// Until killed: `tasks` tasks take the lock again and again, without a pause.
    Busy {
        /// How many tasks.
        tasks: u32,
        /// How long each stays inside, in microseconds.
        stay_us: u64,
    },
    /// Moves money between the accounts in the store, each move under the locks of both of its
    /// accounts. Ends when all processes in sum have made `moves` moves. See
    /// [`transfer`](crate::transfer).
    Transfer {
        /// How many tasks.
        tasks: u32,
        /// How many moves.
        moves: u64,
        /// The seed of the choice of accounts.
        seed: u64,
    },
    /// Takes no lock: calls `init_from_env` and reports the outcome.
    InitFromEnv,
}

/// A worker's report, one JSON object a line on standard output. Stamps are of
/// [`clock::now`](crate::clock::now).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The pool is connected; the lock is asked for next.
    Ready,
    /// The body begins.
    Enter {
        /// When.
        at: u64,
        /// The fence.
        fence: Option<u64>,
        /// When the lease ends if it is not renewed.
        deadline: u64,
    },
    /// The body is polled.
    Poll {
        /// When this poll of the whole task began, before it reached the lock's gate. A process
        /// that is stopped in the middle of a poll finishes that poll later; no lock can prevent
        /// that.
        began: u64,
        /// When the body was reached.
        at: u64,
        /// When the lease ends if it is not renewed.
        deadline: u64,
    },
    /// The body ends.
    Leave {
        /// When.
        at: u64,
    },
    /// The annotated function has returned its value.
    Done,
    /// The annotated function, or the connection, failed.
    Failed {
        /// The variant's name.
        kind: String,
        /// Its text.
        text: String,
    },
}

/// A running worker process. Dropping it kills the process.
#[derive(Debug)]
pub struct Worker {
    process: Leashed,
    input: Option<ChildStdin>,
    events: Receiver<Event>,
    seen: Vec<Event>,
}

impl Worker {
    /// Starts `program` (the path that cargo gives: `env!("CARGO_BIN_EXE_worker")`) with a job.
    pub fn spawn(program: &str, job: &Job) -> Self {
        Self::spawn_with(program, job, &[])
    }

    /// As [`spawn`](Self::spawn), with environment variables.
    ///
    /// # Panics
    ///
    /// When the program cannot be started.
    pub fn spawn_with(program: &str, job: &Job, environment: &[(&str, &str)]) -> Self {
        let job = serde_json::to_string(job).expect("a job is JSON");
        let mut child = Command::new(program)
            .arg(job)
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the worker program starts");
        let input = child.stdin.take();
        let output = child.stdout.take().expect("standard output is piped");
        let (send, events) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let event = serde_json::from_str(&line)
                    .unwrap_or_else(|error| panic!("the worker said {line:?}: {error}"));
                if send.send(event).is_err() {
                    break;
                }
            }
        });
        Self {
            process: Leashed::new(child, None),
            input,
            events,
            seen: Vec::new(),
        }
    }

    /// Its process, to be stopped and killed.
    pub fn process(&mut self) -> &mut Leashed {
        &mut self.process
    }

    /// Waits for the first event that `wanted` accepts. All events until then are kept.
    ///
    /// # Panics
    ///
    /// When it does not come within `limit`, or the worker ends before.
    #[track_caller]
    pub fn wait_for(
        &mut self,
        what: &str,
        limit: Duration,
        wanted: impl Fn(&Event) -> bool,
    ) -> Event {
        let end = std::time::Instant::now() + limit;
        loop {
            let left = end.saturating_duration_since(std::time::Instant::now());
            match self.events.recv_timeout(left) {
                Ok(event) => {
                    self.seen.push(event.clone());
                    if wanted(&event) {
                        return event;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    panic!(
                        "{what}: did not come within {limit:?}; last: {:?}",
                        self.seen.last()
                    )
                }
                Err(RecvTimeoutError::Disconnected) => {
                    panic!(
                        "{what}: the worker ended before; last: {:?}",
                        self.seen.last()
                    )
                }
            }
        }
    }

    /// Waits until the body begins.
    #[track_caller]
    pub fn wait_entered(&mut self, limit: Duration) -> Event {
        self.wait_for("the worker's body begins", limit, |event| {
            matches!(event, Event::Enter { .. })
        })
    }

    /// Waits until the worker has ended, well or not.
    #[track_caller]
    pub fn wait_end(&mut self, limit: Duration) -> Event {
        self.wait_for("the worker ends", limit, |event| {
            matches!(event, Event::Done | Event::Failed { .. })
        })
    }

    /// Lets a holding body return.
    pub fn leave(&mut self) {
        if let Some(input) = &mut self.input {
            // A worker that has ended already needs no telling.
            let _ = input.write_all(b"leave\n");
        }
    }

    /// All events that were waited for.
    pub fn seen(&self) -> &[Event] {
        &self.seen
    }

    /// The sections of the seen events, for the [`Recorder`](crate::recorder::Recorder).
    pub fn sections(&self, key: &str) -> Vec<Section> {
        let mut sections: Vec<Section> = Vec::new();
        for event in &self.seen {
            match (event, sections.last_mut()) {
                (
                    Event::Enter {
                        at,
                        fence,
                        deadline,
                    },
                    _,
                ) => sections.push(Section {
                    key: key.to_owned(),
                    fence: *fence,
                    entered: *at,
                    left: None,
                    deadline: *deadline,
                }),
                (Event::Poll { deadline, .. }, Some(section)) => section.deadline = *deadline,
                (Event::Leave { at }, Some(section)) => section.left = Some(*at),
                _ => {}
            }
        }
        sections
    }
}
