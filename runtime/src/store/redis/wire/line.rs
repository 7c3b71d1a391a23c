//! Sends and receives the bytes of one connection. Requests are sent in order, and answered in the
//! same order.
//!
//! The thread that polls the store also does this I/O. So a thread with a request writes it to the
//! socket itself, without waking another thread. The thread that the socket wakes for an answer
//! also reads this answer.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use redis::{Pipeline, PushInfo, PushKind, RedisError, Value};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::framer::Framer;
use super::replies;
use crate::base::seeded::seeded;
use crate::store::redis::commands::outgoing::Outgoing;
use crate::store::redis::garbage::Garbage;
use crate::store::socket::Wire;

/// Maximum number of bytes of one read.
const PIECE: usize = 16 * 1024;

/// A stream of bytes in both directions.
pub(crate) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Duplex for S {}

/// The bytes of one connection.
pub(crate) struct Line {
    stream: Box<dyn Duplex>,
    wire: Arc<Wire>,
    /// The bytes to send. Those before `written` have been sent.
    out: Outgoing,
    written: usize,
    flushed: bool,
    framer: Framer,
    piece: Box<[u8]>,
    /// The answers so far to each sent pipeline, oldest first. A pipeline stays here until its
    /// complete answers are taken.
    unanswered: VecDeque<Answers>,
    /// Messages that the server sent without a request.
    pushes: VecDeque<PushInfo>,
    /// The reason why the connection has ended.
    ended: Option<RedisError>,
}

/// The answers to one pipeline.
struct Answers {
    expected: usize,
    come: Vec<Value>,
}

/// A line that waits for the answers to its only pipeline. When it is dropped without them, the
/// connection has ended.
struct Asking<'a>(&'a mut Line);

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if !self.0.unanswered.is_empty() && !seeded!(AnswersShifted) {
            let ended = || io::Error::from(io::ErrorKind::TimedOut).into();
            self.0.ended.get_or_insert_with(ended);
        }
    }
}

impl Line {
    pub(crate) fn new(stream: Box<dyn Duplex>, wire: Arc<Wire>) -> Self {
        Self {
            stream,
            wire,
            out: Outgoing::default(),
            written: 0,
            flushed: true,
            framer: Framer::new(),
            piece: vec![0; PIECE].into(),
            unanswered: VecDeque::new(),
            pushes: VecDeque::new(),
            ended: None,
        }
    }

    /// Returns the socket on which answers arrive.
    pub(crate) fn wire(&self) -> &Arc<Wire> {
        &self.wire
    }

    /// Returns the reason why the connection has ended, or `None` if it has not.
    pub(crate) fn ended(&self) -> Option<&RedisError> {
        self.ended.as_ref()
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Returns the buffer for commands, which [`send`](Self::send) sends.
    pub(crate) fn out(&mut self) -> &mut Outgoing {
        &mut self.out
    }

    /// Schedules the commands in the buffer for the next [`poll`](Self::poll). Expects an answer to
    /// each.
    pub(crate) fn send(&mut self) {
        let expected = self.out.take_count();
        self.unanswered.push_back(Answers {
            expected,
            come: Vec::with_capacity(expected),
        });
    }

    /// Writes the pending commands, and reads the bytes that have arrived.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) {
        if self.ended.is_none() {
            let written = self.write(cx);
            // The connection is read even after a failed write, because answers that arrived before
            // the failure count.
            let read = self.read(cx);
            self.ended = written.and(read).err();
        }
    }

    /// Returns the answers to the oldest pipeline, if all have arrived.
    pub(crate) fn take_answers(&mut self) -> Option<Vec<Value>> {
        let front = self.unanswered.front()?;
        if front.come.len() < front.expected {
            return None;
        }
        self.unanswered.pop_front().map(|answers| answers.come)
    }

    pub(crate) fn take_push(&mut self) -> Option<PushInfo> {
        self.pushes.pop_front()
    }

    /// Sends `questions` after the commands already in the buffer, and waits for the answers to all
    /// of them. Call this only if no pipeline is pending.
    ///
    /// If the future is dropped before the answers, for example after a time limit, the connection
    /// has ended. Otherwise later requests would get these answers.
    pub(crate) async fn ask(&mut self, questions: &Pipeline) -> Result<Vec<Value>, RedisError> {
        for question in questions.cmd_iter() {
            self.out.add(question);
        }
        self.send();
        let asking = Asking(self);
        poll_fn(|cx| asking.0.poll_answers(cx)).await
    }

    fn poll_answers(&mut self, cx: &mut Context<'_>) -> Poll<Result<Vec<Value>, RedisError>> {
        self.poll(cx);
        if let Some(answers) = self.take_answers() {
            return Poll::Ready(Ok(answers));
        }
        self.ended
            .clone()
            .map_or(Poll::Pending, |error| Poll::Ready(Err(error)))
    }

    fn write(&mut self, cx: &mut Context<'_>) -> Result<(), RedisError> {
        while self.written < self.out.bytes().len() {
            let rest = &self.out.bytes()[self.written..];
            match Pin::new(&mut *self.stream).poll_write(cx, rest) {
                Poll::Ready(Ok(0)) => return Err(io::Error::from(io::ErrorKind::WriteZero).into()),
                Poll::Ready(Ok(count)) => self.written += count,
                Poll::Ready(Err(error)) => return Err(error.into()),
                Poll::Pending => return Ok(()),
            }
            self.flushed = false;
        }
        if self.written != 0 {
            self.out.clear();
            self.written = 0;
        }
        if !self.flushed {
            match Pin::new(&mut *self.stream).poll_flush(cx) {
                Poll::Ready(done) => {
                    done?;
                    self.flushed = true;
                }
                Poll::Pending => {}
            }
        }
        Ok(())
    }

    fn read(&mut self, cx: &mut Context<'_>) -> Result<(), RedisError> {
        loop {
            let mut piece = ReadBuf::new(&mut self.piece);
            match Pin::new(&mut *self.stream).poll_read(cx, &mut piece) {
                Poll::Pending => return Ok(()),
                Poll::Ready(done) => done?,
            }
            if piece.filled().is_empty() {
                return Err(io::Error::from(io::ErrorKind::BrokenPipe).into());
            }
            let accepted = self.framer.accept(piece.filled());
            // Replies before the invalid bytes still count.
            self.take_in()?;
            accepted.map_err(Garbage::refused)?;
        }
    }

    /// Takes complete replies out of the framer.
    fn take_in(&mut self) -> Result<(), RedisError> {
        while let Some(reply) = self.framer.next() {
            match replies::read(reply)? {
                Value::Push { kind, data } if !is_reply(&kind) => {
                    self.pushes.push_back(PushInfo { kind, data });
                }
                value => {
                    let mut open = self.unanswered.iter_mut();
                    if let Some(front) = open.find(|front| front.come.len() < front.expected) {
                        front.come.push(value);
                    }
                }
            }
        }
        Ok(())
    }
}

/// True if a push of this kind is the answer to a command: RESP3 answers `SUBSCRIBE` with a push.
fn is_reply(kind: &PushKind) -> bool {
    matches!(kind, PushKind::Subscribe | PushKind::Unsubscribe)
}
