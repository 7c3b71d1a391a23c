//! Storage for the value of a body whose result is kept.

use super::{Framed, Owned};

/// The JSON of a value, or the reason why it has none.
pub(crate) type Json = Result<String, String>;

/// Storage for the value of a body.
pub(crate) trait Slot<T> {
    /// Applies `look` to the value, if there is one.
    fn look<R>(&self, look: impl FnOnce(&T) -> R) -> Option<R>;

    /// Sets the value, as if the body had returned it.
    fn put(&mut self, value: T);
}

impl<F, T> Slot<T> for Framed<'_, F, T> {
    fn look<R>(&self, look: impl FnOnce(&T) -> R) -> Option<R> {
        self.value.as_ref().map(look)
    }

    fn put(&mut self, value: T) {
        self.value = Some(value);
    }
}

impl<F, T> Slot<T> for Owned<F, T> {
    fn look<R>(&self, look: impl FnOnce(&T) -> R) -> Option<R> {
        self.value.lock().as_ref().map(look)
    }

    fn put(&mut self, value: T) {
        *self.value.lock() = Some(value);
    }
}
