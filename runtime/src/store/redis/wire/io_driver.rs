//! Moves bytes between a connection and its socket.
//!
//! The thread that polls the store moves the bytes. So a thread with a request writes it to the
//! socket itself, without waking another thread. The thread that hears of an answer reads it. The
//! crate `redis` leaves this to a task of the runtime.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use redis::RedisResult;

use super::guarded::Verdict;
use crate::store::socket::Wire;

pub(crate) type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Moves the bytes of one connection while it is polled.
pub(crate) struct IoDriver {
    moving: Option<Boxed<()>>,
    wire: Arc<Wire>,
    verdict: Verdict,
}

impl IoDriver {
    /// Moves the bytes of a connection with `moving`. They are read through a
    /// [`Guarded`](super::guarded::Guarded) stream.
    pub(crate) fn new(
        moving: impl Future<Output = ()> + Send + 'static,
        wire: Arc<Wire>,
        verdict: Verdict,
    ) -> Self {
        Self {
            moving: Some(Box::pin(moving)),
            wire,
            verdict,
        }
    }

    /// The socket on which any thread can hear of answers.
    pub(crate) fn wire(&self) -> &Arc<Wire> {
        &self.wire
    }

    /// Whether the connection has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.moving.is_none()
    }

    /// What came instead of a reply, if that ended the connection.
    pub(crate) fn verdict(&self) -> Verdict {
        self.verdict.clone()
    }

    /// Writes what is to be sent and takes in what has arrived.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) {
        if let Some(moving) = &mut self.moving
            && moving.as_mut().poll(cx).is_ready()
        {
            // The connection has ended, and all requests that waited for answers have been told.
            self.moving = None;
        }
    }

    /// Does `work`, and moves its bytes.
    pub(crate) async fn drive<T>(
        &mut self,
        work: impl Future<Output = RedisResult<T>>,
    ) -> RedisResult<T> {
        let verdict = self.verdict();
        let mut work = pin!(work);
        let done = poll_fn(|cx| {
            if let Poll::Ready(done) = work.as_mut().poll(cx) {
                return Poll::Ready(done);
            }
            self.poll(cx);
            work.as_mut().poll(cx)
        });
        done.await.map_err(|error| verdict.explain(error))
    }
}
