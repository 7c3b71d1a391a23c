//! One connection with its pending exchanges. Determines how long it may stay silent.

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

/// Minimum silence before a connection is replaced, even with very short leases. A server on a busy
/// machine is silent for this long now and then.
const LEAST_PATIENCE: Duration = Duration::from_millis(250);

/// On a slow network, a connection counts as silent only after this many of its round trips.
const PATIENT_ROUND_TRIPS: u32 = 3;

/// A connection that is idle for this long is tested. Firewalls drop idle connections without
/// notifying either end, and the next call should not be the first to notice.
const IDLE: Duration = Duration::from_secs(15);

/// Minimum time before a replaced connection gives up a request. The engine has retried the request
/// long before, but a late answer can still show the outcome of the earlier attempt.
const DRAIN: Duration = Duration::from_secs(5);

/// Number of a connection of this store. Each new connection gets the next number.
pub(crate) type Generation = u64;

/// A connection in use.
pub(crate) struct Connection {
    pub(crate) generation: Generation,
    /// The server's `INFO` when the connection was opened.
    pub(crate) info: Option<Info>,
    /// True if messages to this process arrive on this connection.
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

/// Returns the answers of a pipeline without the answers to `ASKING`. If the server refuses an
/// `ASKING`, it also refuses the request after it.
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
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stamp {
    pub(crate) generation: Generation,
    /// The pipeline's number on its connection.
    number: u64,
    /// True if the pipeline carries the source of its scripts.
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
    /// Latest time for the answers. It is lowered to the deadline of a later exchange, if that is
    /// earlier: answers come in order, so the later ones are in time only if the earlier ones are.
    deadline: Instant,
}

pub(crate) enum Content {
    /// Requests of the engine.
    Requests(Batches),
    /// Commands that load the scripts again.
    Scripts,
    /// A login with new credentials.
    Login(Box<Access>),
    /// A command whose answer only shows that the server answers.
    Other,
}

impl Connection {
    /// Takes an opened connection into use. If its round trips are slow, it extends the patience of
    /// requests, to `slowest` at most.
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

    /// True if the connection has ended, and nothing is pending on it.
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

    /// Returns the time at which the oldest exchange is given up, at the latest.
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

    /// Schedules the commands in the buffer to be sent at the next `move_bytes`.
    pub(crate) fn send(&mut self, content: Content, patience: Duration) {
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

    /// Records that the server did not find a script. Loads the scripts again, unless further
    /// requests will carry the source.
    pub(crate) fn missed_script(&mut self, stamp: Stamp, patience: Duration) {
        if self.memory.missed(stamp.number, Instant::now()) {
            self.load_scripts(patience);
        }
    }

    /// Records that the server refuses scripts that are sent by their source.
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

    /// Returns the time for a test of the connection, if nothing is pending.
    pub(crate) fn idle_at(&self) -> Option<Instant> {
        self.is_quiet().then(|| self.last_sent + IDLE)
    }

    /// True if nothing is pending.
    pub(crate) fn is_quiet(&self) -> bool {
        self.under_way.is_empty()
    }
}
