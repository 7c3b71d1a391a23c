//! An open connection, with the sent commands that have no answer yet. Determines how long the
//! connection may stay silent.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::task::Context;
use std::time::Duration;

use redis::{PushInfo, RedisError, RedisResult, Value};
use tokio::time::Instant;

use super::connect::OpenedConnection;
use super::line::Line;
use super::login::Access;
use crate::store::redis::commands::batch::{Batch, Batches};
use crate::store::redis::commands::outgoing::Outgoing;
use crate::store::redis::commands::script_sources::ScriptSources;
use crate::store::redis::commands::scripts;
use crate::store::redis::server_info::Info;
use crate::store::socket::Wire;

/// Minimum silence before a connection is replaced, even with very short leases. Even a working
/// server is sometimes silent for almost this long, if its machine is busy.
const LEAST_PATIENCE: Duration = Duration::from_millis(250);

/// On a slow network, a connection counts as silent only after this many of its round trips.
const PATIENT_ROUND_TRIPS: u32 = 3;

/// Idle time after which a connection is tested. Firewalls drop idle connections without notifying
/// either end. The test detects a dropped connection before the next call needs it.
const IDLE: Duration = Duration::from_secs(15);

/// Minimum time for which a replaced connection waits for the answers to its requests. The engine
/// retries these requests much earlier, but a late answer still shows the outcome of the earlier
/// attempt.
const DRAIN: Duration = Duration::from_secs(5);

/// Number of a connection of this store. Each new connection gets the next number.
pub(crate) type Generation = u64;

/// A connection in use.
pub(crate) struct Connection {
    pub(crate) generation: Generation,
    /// The server's `INFO` when the connection was opened.
    pub(crate) info: Option<Info>,
    /// True if this connection is subscribed to the channel on which other processes notify this
    /// process.
    pub(crate) listening: bool,
    line: Line,
    /// Pending exchanges, oldest first.
    under_way: VecDeque<UnderWay>,
    /// Recent round trip. A slower answer raises it at once. A faster answer lowers it by half at
    /// most.
    round_trip: Duration,
    slowest: Duration,
    last_sent: Instant,
    last_answer: Instant,
    loading: bool,
    /// Number of pipelines sent so far.
    sent: u64,
    memory: ScriptSources,
}

/// Returns the answers to the requests of a pipeline. Drops the answers to `ASKING`, a command that
/// precedes some requests in a Redis cluster. If the server refuses an `ASKING`, it also refuses
/// the request after it, so no refusal is lost.
pub(crate) fn of_requests(batches: &[Batch], answers: Vec<Value>) -> Vec<Value> {
    let asked = |batch: &Batch| batch.iter().any(|request| request.flags.asking);
    if !batches.iter().any(asked) {
        return answers;
    }
    let (mut answers, mut kept) = (answers.into_iter(), Vec::new());
    for batch in batches {
        kept.extend(answers.by_ref().nth(usize::from(asked(batch))));
    }
    kept.extend(answers);
    kept
}

/// Identifies a pipeline (commands that were sent together) and its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) generation: Generation,
    /// The pipeline's number on its connection.
    number: u64,
    /// True if the pipeline contains the source of its scripts (`EVAL`) instead of their hashes.
    pub(crate) by_source: bool,
}

/// A sent pipeline with its answers.
pub(crate) struct Exchange {
    pub(crate) stamp: Stamp,
    pub(crate) content: Content,
    pub(crate) answers: RedisResult<Vec<Value>>,
    sent_at: Instant,
}

struct UnderWay {
    stamp: Stamp,
    content: Content,
    sent_at: Instant,
    /// Time until which the answers must arrive. If a later exchange has an earlier deadline, this
    /// exchange gets that deadline, too, because the server answers in order.
    deadline: Instant,
}

pub(crate) enum Content {
    /// Requests of the engine.
    Requests(Batches),
    /// Commands that load the scripts again.
    Scripts,
    /// A login with new credentials.
    Login(Box<Access>),
    /// A `PING`, or a removal sent again on a replaced connection. The content of the answer does
    /// not matter.
    Other,
}

impl Connection {
    /// Takes an opened connection into use. If its round trips are slow, a request may stay
    /// unanswered for longer than its patience, up to `slowest`.
    pub(crate) fn new(generation: Generation, opened: OpenedConnection, slowest: Duration) -> Self {
        Self {
            slowest,
            generation,
            info: opened.info,
            listening: opened.listening,
            line: opened.line,
            under_way: VecDeque::new(),
            round_trip: opened.round_trip,
            last_sent: Instant::now(),
            last_answer: Instant::now(),
            loading: false,
            sent: 0,
            memory: ScriptSources::default(),
        }
    }

    /// Returns the socket on which answers arrive.
    pub(crate) fn wire(&self) -> &Arc<Wire> {
        self.line.wire()
    }

    /// True if the connection has ended, and no exchange is pending on it.
    pub(crate) fn has_ended(&self) -> bool {
        self.line.has_ended() && self.is_quiet()
    }

    pub(crate) fn move_bytes(&mut self, cx: &mut Context<'_>) {
        self.line.poll(cx);
    }

    /// Returns the oldest exchange, if it has been answered or the connection has ended.
    pub(crate) fn next_exchange(&mut self) -> Option<Exchange> {
        let answers = match self.line.take_answers() {
            Some(answers) => Ok(answers),
            None => Err(self.line.ended()?.clone()),
        };
        self.ends(answers)
    }

    /// Gives up the oldest exchange, and returns it with an error.
    pub(crate) fn give_up(&mut self) -> Option<Exchange> {
        let error = self.line.ended().cloned();
        let error = error.unwrap_or_else(|| io::Error::from(io::ErrorKind::BrokenPipe).into());
        self.ends(Err(error))
    }

    fn ends(&mut self, answers: Result<Vec<Value>, RedisError>) -> Option<Exchange> {
        let UnderWay {
            stamp,
            content,
            sent_at,
            ..
        } = self.under_way.pop_front()?;
        Some(Exchange {
            stamp,
            content,
            answers,
            sent_at,
        })
    }

    /// Returns the next message that the server sent without a request.
    pub(crate) fn take_push(&mut self) -> Option<PushInfo> {
        self.line.take_push()
    }

    /// Returns the latest time at which the oldest exchange is given up.
    pub(crate) fn gives_up_at(&self) -> Option<Instant> {
        let oldest = self.under_way.front()?;
        Some(oldest.sent_at + DRAIN.max(self.slowest))
    }

    /// Returns the buffer for commands, which [`send`](Self::send) sends.
    pub(crate) fn out(&mut self) -> &mut Outgoing {
        let by_source = self.memory.by_source(Instant::now());
        let out = self.line.out();
        out.by_source = by_source;
        out
    }

    /// Schedules the commands in the buffer to be sent at the next `move_bytes`. Returns the stamp
    /// of their pipeline.
    pub(crate) fn send(&mut self, content: Content, patience: Duration) -> Stamp {
        let sent_at = Instant::now();
        let slow = self.round_trip.saturating_mul(PATIENT_ROUND_TRIPS);
        let least = LEAST_PATIENCE.max(slow.min(self.slowest));
        let deadline = sent_at + patience.max(least);
        for earlier in self.under_way.iter_mut().rev() {
            if earlier.deadline <= deadline {
                break;
            }
            earlier.deadline = deadline;
        }
        self.last_sent = sent_at;
        self.sent += 1;
        let stamp = Stamp {
            generation: self.generation,
            number: self.sent,
            by_source: self.line.out().by_source,
        };
        self.line.send();
        self.under_way.push_back(UnderWay {
            stamp,
            content,
            sent_at,
            deadline,
        });
        stamp
    }

    /// Loads the scripts again, unless a load is already pending.
    fn load_scripts(&mut self, patience: Duration) {
        if !self.loading {
            self.loading = true;
            for command in scripts::load(&scripts::missing(None)).cmd_iter() {
                self.line.out().add(command);
            }
            self.send(Content::Scripts, patience);
            self.memory.loading(self.sent);
        }
    }

    /// Records that the server found a script.
    pub(crate) fn found_script(&mut self, stamp: Stamp) {
        if !stamp.by_source {
            self.memory.found(stamp.number);
        }
    }

    /// Records that the server did not find a script. Loads the scripts again if necessary. If the
    /// server has lost them again after a load, further requests contain the source instead.
    pub(crate) fn missed_script(&mut self, stamp: Stamp, patience: Duration) {
        if self.memory.missed(stamp.number, Instant::now()) {
            self.load_scripts(patience);
        }
    }

    /// Records that the server refuses requests that contain the source of a script (`EVAL`).
    pub(crate) fn source_refused(&mut self) {
        self.memory.refuse();
    }

    pub(crate) fn ping(&mut self, patience: Duration) {
        self.line.out().command("PING");
        self.send(Content::Other, patience);
    }

    /// Records that `exchange` was answered, and measures its round trip.
    pub(crate) fn answered(&mut self, exchange: &Exchange) {
        self.last_answer = Instant::now();
        let sample = self.last_answer - exchange.sent_at;
        self.round_trip = sample.max(self.round_trip / 2);
        if let Content::Scripts = exchange.content {
            self.loading = false;
        }
    }

    /// Returns the time at which this connection counts as silent, if no further answer arrives.
    /// While answers keep arriving, the connection is busy and not silent, even if the oldest
    /// request is late.
    pub(crate) fn silent_at(&self) -> Option<Instant> {
        let deadline = self.under_way.front()?.deadline;
        Some(deadline.max(self.last_answer + LEAST_PATIENCE))
    }

    /// Returns the time at which a silent connection is dropped, even if there is no other one.
    /// Later requests then no longer wait behind its unanswered ones.
    pub(crate) fn drops_at(&self) -> Option<Instant> {
        self.silent_at().map(|at| at + DRAIN.max(self.slowest))
    }

    /// Returns the time at which an idle connection must be tested. `None` while an exchange is
    /// pending.
    pub(crate) fn idle_at(&self) -> Option<Instant> {
        self.is_quiet().then(|| self.last_sent + IDLE)
    }

    /// True if no exchange is pending.
    pub(crate) fn is_quiet(&self) -> bool {
        self.under_way.is_empty()
    }
}
