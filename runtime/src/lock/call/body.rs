//! The body of a call. This code is compiled for each annotated function, so it must be small.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

#[cfg(feature = "replay")]
pub(crate) mod slot;

/// The interface between a body and the code around it. That code is the same for all bodies, so it
/// is compiled once, with this crate.
pub(crate) trait Body {
    /// Polls the body, and stores its value when it returns. Ready with true if this value starts
    /// the `cooldown`.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<bool>;

    /// Drops the body, but not its returned value.
    fn clear(&mut self);

    /// Takes the JSON of the value, for the store to keep. None without `replay`, after `Err`, and
    /// after the first call of this method.
    #[cfg(feature = "replay")]
    fn take_json(&mut self) -> Option<slot::Json> {
        None
    }

    /// Sets the value from the JSON of a kept result, as if the body had returned it. The error is
    /// the reason why the JSON cannot be read.
    #[cfg(feature = "replay")]
    fn fill(&mut self, _json: &str) -> Result<(), String> {
        Err("this call keeps no result".to_owned())
    }
}

/// Function that returns true if the value starts the `cooldown`, during which the lock stays
/// taken. None without `cooldown`.
pub(crate) type Good<T> = Option<fn(&T) -> bool>;

/// A body that stays a pinned variable of the calling function, with the body's value.
pub(crate) struct Framed<'a, F, T> {
    body: Pin<&'a mut Option<F>>,
    value: Option<T>,
    good: Good<T>,
}

/// A body that moves into a separate task. The task and the call share its value.
pub(crate) struct Owned<F, T> {
    body: Option<Pin<Box<F>>>,
    value: Shared<T>,
    good: Good<T>,
}

/// The return value of a body that runs in a separate task. The task sets it, the call takes it.
pub(crate) struct Shared<T>(Arc<Mutex<Option<T>>>);

impl<'a, F, T> Framed<'a, F, T> {
    pub(crate) fn new(body: Pin<&'a mut Option<F>>, good: Good<T>) -> Self {
        Self {
            body,
            value: None,
            good,
        }
    }

    /// Takes the value of the finished body.
    pub(crate) fn value(&mut self) -> T {
        self.value.take().unwrap_or_else(|| misused())
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
        *self.value.lock() = Some(value);
        Poll::Ready(good)
    }

    fn clear(&mut self) {
        self.body = None;
    }
}

impl<F, T> Owned<F, T> {
    pub(crate) fn new(body: F, good: Good<T>) -> (Self, Shared<T>) {
        let value = Arc::new(Mutex::new(None));
        let body = Self {
            body: Some(Box::pin(body)),
            value: Shared(Arc::clone(&value)),
            good,
        };
        (body, Shared(value))
    }
}

impl<T> Shared<T> {
    /// Takes the value of the finished body.
    pub(crate) fn take(self) -> T {
        self.lock().take().unwrap_or_else(|| misused())
    }

    fn lock(&self) -> MutexGuard<'_, Option<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Panics because a finished call was polled again, which `Future::poll` does not allow. The future
/// of an `async fn` panics in this case, too.
#[cold]
fn misused() -> ! {
    panic!("a body was polled after its end");
}
