//! Functions and types for the code that the attribute generates. This module is not public API. It
//! can change in any version, because this crate requires exactly one version of the macro.

use std::fmt::Display;

pub use crate::base::io_text::io_text;
pub use crate::error::LockError;
pub use crate::key::Key;
pub use crate::lock::call::run::{Call, Outcome};
pub use crate::lock::nest::call_site::Site;
pub use crate::lock::nest::is_held::assert_held;
pub use crate::plain::plain;
pub use core;

use crate::inspect::info::{Holder, LockInfo};
use crate::lock::api::request::LockRequest;
use crate::lock::call::guard::LockHandle;
use crate::lock::nest::call_site::At;
use crate::pool::LockPool;

/// Returns the URL of a pool's store without the password, and the pool's namespace. Used by the
/// command `leasehold`.
pub fn place(pool: &LockPool) -> (&str, &str) {
    (pool.store_name(), pool.namespace())
}

/// Names the function of `site` as the holder of the requested lock, for operators and logs. Used
/// by the command `leasehold`.
pub fn named(request: LockRequest, site: &'static Site) -> LockRequest {
    request.at(At::Function(site))
}

/// True if this process was notified that `force_release` has taken the lock away. Used by the
/// command `leasehold`.
pub fn is_taken_away(lock: &LockHandle) -> bool {
    lock.locks().are_taken_away()
}

/// True if this holder may hold the lock. On a quorum, each node that did not answer counts as if
/// this holder had it. Used by the command `leasehold`.
pub fn may_be_held_by(lock: &LockInfo, holder: &Holder) -> bool {
    lock.may_be_held_by(holder)
}

/// Serves as the last argument of functions with a bound such as `KeyPart<Hint>`, where `Hint` is
/// the type of this argument.
///
/// If a value does not meet the bound, rustc otherwise suggests adding `KeyPart`, which is not
/// public API, to the user's signature. It makes no such suggestion before it has inferred `Hint`.
pub fn hint() {}

/// A value that can be inserted into a key: any `Display` type.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be inserted into a lock key",
    label = "not `Display`",
    note = "insert a field or a method that is `Display`, such as `<order.id>`, or implement `Display`",
    note = "for an extractor take the value in the signature: `Path(id): Path<u64>`",
    note = "for an `Option` decide before the call what `None` locks"
)]
pub trait KeyPart<Hint>: Display {}

#[diagnostic::do_not_recommend]
impl<T: Display + ?Sized, Hint> KeyPart<Hint> for T {}

/// The value of a key given as an expression: any `Display` type.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a lock key",
    label = "not `Display`",
    note = "give a value that is `Display`, such as a `String`, `order.id` or `format!(…)`",
    note = "for an `Option` decide before the call what `None` locks"
)]
pub trait WholeKey<Hint>: Display {}

#[diagnostic::do_not_recommend]
impl<T: Display + ?Sized, Hint> WholeKey<Hint> for T {}

/// Appends the value of the placeholder `<name>` to a key. The returned reference allows the form
/// `*key_value(…) = ();` for a field such as `<order.id>`. If `id` is a method, rustc suggests
/// inserting `()` in the wrong place, but not on the left side of an assignment.
pub fn key_value<T, Hint>(key: &mut Key, name: &'static str, value: &T, _: Hint) -> &'static mut ()
where
    T: KeyPart<Hint> + ?Sized,
{
    key.part(name, value);
    // Leaks no memory, because `()` has no size.
    Box::leak(Box::new(()))
}

/// Like [`key_value`], for a value whose type is a type parameter. Requires `Display` itself, so
/// that rustc suggests this bound if the type parameter in the user's signature lacks it.
pub fn key_part<T: Display + ?Sized>(key: &mut Key, name: &'static str, value: &T) {
    key.part(name, value);
}

/// Borrows a whole argument, so that the expanded `async move` block captures it whole, and not
/// only one of its fields. The expanded code is `*captured(&_id) = ();`, because Clippy accepts the
/// use of a name such as `_id` only on the left side of an assignment.
pub fn captured<T: ?Sized>(_: &T) -> &'static mut () {
    Box::leak(Box::new(()))
}

/// Creates a key from an expression. For `arguments`, see `Key::expression`.
pub fn key<T, Hint>(value: &T, arguments: &'static [&'static str], _: Hint) -> Key
where
    T: WholeKey<Hint> + ?Sized,
{
    Key::expression(value, arguments)
}

/// Like [`key`], for an argument whose type is a type parameter. For the bound, see [`key_part`].
pub fn generic_key<T: Display + ?Sized>(value: &T) -> Key {
    Key::expression(value, &[])
}

/// A return type that can carry a lock's error. A function without `on_error` needs such a type.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot carry a `LockError`",
    label = "taking the lock can fail, but this type cannot report it",
    note = "return a `Result` whose error implements `From<leasehold::LockError>`, or add `on_error = |error| …`"
)]
pub trait FromLockError<Hint> {
    /// Creates the return value that carries `error`.
    fn from_lock_error(error: LockError, hint: Hint) -> Self;
}

#[diagnostic::do_not_recommend]
impl<T, E: From<LockError>, Hint> FromLockError<Hint> for Result<T, E> {
    fn from_lock_error(error: LockError, _: Hint) -> Self {
        Err(E::from(error))
    }
}

/// Calls the attribute's `on_error`. With this signature, a closure `|error| …` needs no type
/// annotation.
pub fn on_error<R>(handler: impl FnOnce(LockError) -> R, error: LockError) -> R {
    handler(error)
}

/// Calls `handler` with the error of an annotated function that returns `!`. `R` stands for `!`,
/// because stable Rust allows `!` only as a return type, and not in the types of these parameters.
pub fn never<R>(ended: Result<R, LockError>, handler: impl FnOnce(LockError) -> R) -> R {
    ended.unwrap_or_else(handler)
}
