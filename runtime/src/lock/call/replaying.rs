//! Calls with `replay`.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Poll, ready};
use std::time::Duration;

use super::{Call, Detached};
use crate::error::LockError;
use crate::lock::body::{Framed, Owned};
use crate::lock::detach;
use crate::lock::replay::{self, Recorded, Replayable};

impl Call {
    /// `replay = "24h"`; with [`run_replaying`](Self::run_replaying) or
    /// [`run_detached_replaying`](Self::run_detached_replaying).
    #[must_use]
    pub fn replay(mut self, replay: Duration) -> Self {
        self.settings().replay = Some(replay);
        self
    }

    /// `fingerprint = cart`
    #[must_use]
    pub fn fingerprint(mut self, value: &(impl serde::Serialize + ?Sized)) -> Self {
        self.settings().fingerprint = Some(replay::fingerprint(value));
        self
    }

    /// Like [`run`](Self::run), but keeps the value of `Ok`. If a value is already kept, returns
    /// that value instead of running the body.
    pub fn run_replaying<'a, F, Hint: 'a>(
        &'a mut self,
        body: Pin<&'a mut Option<F>>,
        _: Hint,
    ) -> impl Future<Output = Result<F::Output, LockError>>
    where
        F: Future<Output: Replayable<Hint>>,
    {
        let mut body = Recorded::new(Framed::new(body, None));
        poll_fn(move |cx| {
            ready!(self.0.section_mut().poll(cx, &mut body))?;
            Poll::Ready(Ok(body.body().value()))
        })
    }

    /// Like [`run_detached`](Self::run_detached), but keeps the value of `Ok`. If a value is
    /// already kept, returns that value instead of running the body.
    pub fn run_detached_replaying<F, Hint: 'static>(self, body: F, _: Hint) -> Detached<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Replayable<Hint> + Send + 'static,
    {
        let (body, value) = Owned::new(body, None);
        let ended = detach::run(self.0, Box::new(Recorded::new(body)));
        Box::pin(async move {
            ended.await?;
            Ok(value.take())
        })
    }
}
