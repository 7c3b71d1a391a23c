//! Access to the value of a body, for `replay`.

use super::{Framed, Owned};

/// JSON of a body's value, or the reason why the value cannot be kept as JSON.
pub(crate) type Json = Result<String, String>;

/// A body that stores its value.
pub(crate) trait Slot<T> {
    /// Applies `look` to the value. Returns none if the body has no value yet.
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
