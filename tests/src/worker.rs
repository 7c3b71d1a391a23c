//! Worker processes: annotated functions in a process that a test can stop and kill.

use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::process::Leashed;
use crate::recorder::Section;

/// The job of a worker. The worker gets it as its only argument, as JSON.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Job {
    /// The URL of the store.
    pub url: String,
    /// The key to lock. A `Transfer` job locks the keys of accounts instead.
    pub key: String,
    /// The ttl, in milliseconds.
    pub ttl_ms: u64,
    /// Longest time in the queue, in milliseconds.
    pub wait_ms: u64,
    /// True if a `Hold` job renews its lease. The other jobs ignore this field.
    pub watchdog: bool,
    /// The work to do.
    pub scenario: Scenario,
}

/// The work of a worker.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Scenario {
    /// Takes the lock once, and stays inside until a line arrives on standard input. Reports every
    /// poll.
    Hold,
    /// Becomes leader, and stays leader until a line arrives on standard input.
    Lead,
    /// Takes the lock many times. Each time it reads the number in a file, sleeps, and writes the
    /// number plus one.
    Count {
        /// The file.
        file: String,
        /// Number of repetitions. With `None`, the worker repeats until a line arrives on standard
        /// input.
        times: Option<u32>,
        /// Time between reading and writing, in microseconds.
        pause_us: u64,
    },
    /// Takes the lock again and again in `tasks` tasks, without a pause, until killed.
    Busy {
        /// Number of tasks.
        tasks: u32,
        /// Time inside the lock, in microseconds.
        stay_us: u64,
    },
    /// Moves money between the accounts in the store, each move under the locks of both accounts.
    /// Ends when all processes together have made `moves` moves. See [`transfer`](crate::transfer).
    Transfer {
        /// Number of tasks.
        tasks: u32,
        /// Number of moves of all processes together, after which the job ends.
        moves: u64,
        /// The seed of the random choice of accounts and amounts.
        seed: u64,
    },
    /// Takes no lock: calls `init_from_env` and reports the outcome.
    InitFromEnv,
}

/// A worker's report, one JSON object per line on standard output. Timestamps are from
/// [`clock::now`](crate::clock::now).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The pool is connected. The worker requests the lock next.
    Ready,
    /// The body begins.
    Enter {
        /// Time of this event.
        at: u64,
        /// The fence.
        fence: Option<u64>,
        /// End of the lease if it is not renewed again.
        deadline: u64,
    },
    /// The body is polled.
    Poll {
        /// Time at which this poll of the call began, before the call checked the deadline; 0 in a
        /// `Lead` job. Tests compare this time with the deadline, instead of `at`. If the process
        /// is stopped after the check, the poll reaches the body only after the process resumes.
        began: u64,
        /// Time at which the poll reached the body.
        at: u64,
        /// End of the lease if it is not renewed again.
        deadline: u64,
    },
    /// The body ends.
    Leave {
        /// Time of this event.
        at: u64,
    },
    /// The job has ended without an error.
    Done,
    /// The job has failed, for example because the worker could not connect.
    Failed {
        /// The name of the error's variant.
        kind: String,
        /// The text of the error.
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
    /// Starts the worker's program with a job. `program` is the path from cargo:
    /// `env!("CARGO_BIN_EXE_worker")`.
    pub fn spawn(program: &str, job: &Job) -> Self {
        Self::spawn_with(program, job, &[])
    }

    /// Like [`spawn`](Self::spawn), with environment variables.
    ///
    /// # Panics
    ///
    /// Panics if the program cannot be started.
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
                    .unwrap_or_else(|error| panic!("the worker printed {line:?}: {error}"));
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

    /// The worker's process, for stopping and killing it.
    pub fn process(&mut self) -> &mut Leashed {
        &mut self.process
    }

    /// Waits for the next event that `wanted` accepts. Then [`seen`](Self::seen) returns all events
    /// up to this event.
    ///
    /// # Panics
    ///
    /// Panics if the event does not arrive within `limit`, or if the worker ends first.
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

    /// Waits until the worker reports its success or failure. The worker ends after this report.
    #[track_caller]
    pub fn wait_end(&mut self, limit: Duration) -> Event {
        self.wait_for("the worker ends", limit, |event| {
            matches!(event, Event::Done | Event::Failed { .. })
        })
    }

    /// Lets the body of a [`Hold`](Scenario::Hold) or `Lead` job return, and ends a `Count` job
    /// after its current repetition.
    pub fn leave(&mut self) {
        if let Some(input) = &mut self.input {
            // An error is ignored, because the worker may have ended already.
            let _ = input.write_all(b"leave\n");
        }
    }

    /// All events received so far.
    pub fn seen(&self) -> &[Event] {
        &self.seen
    }

    /// The sections from the received events, for the [`Recorder`](crate::recorder::Recorder).
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
