//! What expanded code calls. Not public API: it changes without notice, and the versions of the
//! macro and of this crate are pinned to each other.

use std::fmt::Display;

use crate::error::LockError;
pub use crate::key::Key;
pub use crate::lock::call::{Call, Outcome};
pub use crate::lock::call_site::Site;
pub use core;

/// A value that can stand in a key: everything that is `Display`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be inserted into a lock key",
    label = "not `Display`",
    note = "insert a field or a method that is: `<order.id>`, `<req.tenant()>`",
    note = "of an `Option` decide before the call what `None` locks"
)]
pub trait KeyPart: Display {}

#[diagnostic::do_not_recommend]
impl<T: Display + ?Sized> KeyPart for T {}

/// Appends the value of the placeholder `<name>` to a key.
pub fn key_part<T: KeyPart + ?Sized>(key: &mut Key, name: &'static str, value: &T) {
    key.part(name, value);
}

/// A key given as an expression.
pub fn key<T: KeyPart + ?Sized>(value: &T) -> Key {
    Key::expression(value)
}

/// What an annotated function returns when it could not run inside its lock.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot carry a `LockError`",
    label = "the lock can fail, and this type has no way to say so",
    note = "return a `Result` whose error implements `From<leasehold::LockError>`, or add `on_error = |error| …`"
)]
pub trait FromLockError {
    /// The value for `error`.
    fn from_lock_error(error: LockError) -> Self;
}

#[diagnostic::do_not_recommend]
impl<T, E: From<LockError>> FromLockError for Result<T, E> {
    fn from_lock_error(error: LockError) -> Self {
        Err(E::from(error))
    }
}

/// Calls the attribute's `on_error`; generic so that `|error| …` needs no annotation.
pub fn on_error<R>(handler: impl FnOnce(LockError) -> R, error: LockError) -> R {
    handler(error)
}
