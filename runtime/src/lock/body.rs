//! The body of a call: the one part that is compiled for each function.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use super::call::Call;
use super::detach;
use crate::error::LockError;

/// A body, as the code around it sees it. That code is the same for all bodies, so it is compiled
/// once, with this crate.
pub(crate) trait Body {
    /// Polls the body. When it has returned, the body keeps its value, and says whether a lock with
    /// `hold` stays after it.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<bool>;

    /// Drops the body, but not the value that it returned.
    fn clear(&mut self);
}

/// Ends with the value of a detached body.
pub(crate) type Detached<T> = Pin<Box<dyn Future<Output = Result<T, LockError>> + Send>>;

/// Whether a lock with `hold` stays after this value; none without `hold`.
pub(crate) type Good<T> = Option<fn(&T) -> bool>;

/// A call that runs its body.
///
/// Both stay in the caller's frame, the body behind the call. So if the caller's future is dropped,
/// the body is dropped before the locks are released.
pub(crate) struct Run<'a, F, T> {
    call: &'a mut Call,
    body: Framed<'a, F, T>,
}

struct Framed<'a, F, T> {
    body: Pin<&'a mut Option<F>>,
    value: Option<T>,
    good: Good<T>,
}

/// A body that moves into a task. Its caller shares the value.
struct Owned<F, T> {
    body: Option<Pin<Box<F>>>,
    value: Arc<Mutex<Option<T>>>,
    good: Good<T>,
}

impl<'a, F, T> Run<'a, F, T> {
    pub(crate) fn new(call: &'a mut Call, body: Pin<&'a mut Option<F>>, good: Good<T>) -> Self {
        let body = Framed {
            body,
            value: None,
            good,
        };
        Self { call, body }
    }
}

// Nothing in here is pinned in its place: the body is pinned in the caller's frame.
impl<F, T> Unpin for Run<'_, F, T> {}

impl<F: Future<Output = T>, T> Future for Run<'_, F, T> {
    type Output = Result<T, LockError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { call, body } = self.get_mut();
        ready!(call.poll(cx, body))?;
        match body.value.take() {
            Some(value) => Poll::Ready(Ok(value)),
            None => misused(),
        }
    }
}

impl<F: Future<Output = T>, T> Body for Framed<'_, F, T> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        let Some(body) = self.body.as_mut().as_pin_mut() else {
            misused()
        };
        let value = self.value.insert(ready!(body.poll(cx)));
        Poll::Ready(self.good.is_some_and(|good| good(value)))
    }

    fn clear(&mut self) {
        self.body.set(None);
    }
}

impl<F: Future<Output = T>, T> Body for Owned<F, T> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        let Some(body) = &mut self.body else {
            misused()
        };
        let value = ready!(body.as_mut().poll(cx));
        let good = self.good.is_some_and(|good| good(&value));
        *lock(&self.value) = Some(value);
        Poll::Ready(good)
    }

    fn clear(&mut self) {
        self.body = None;
    }
}

/// Runs a body in a task of its own.
///
/// Boxed, so that the body's type is not a part of the future's type. The compiler then checks the
/// bounds of the body once, here.
pub(crate) fn run_owned<F>(call: Call, body: F, good: Good<F::Output>) -> Detached<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let value = Arc::new(Mutex::new(None));
    let body = Owned {
        body: Some(Box::pin(body)),
        value: Arc::clone(&value),
        good,
    };
    let ended = detach::run(call, Box::new(body));
    Box::pin(async move {
        ended.await?;
        match lock(&value).take() {
            Some(value) => Ok(value),
            None => misused(),
        }
    })
}

fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cold]
fn misused() -> ! {
    panic!("a body was polled after its end");
}
