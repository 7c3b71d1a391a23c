//! Checks that the running code is inside a lock.

use std::fmt;

use super::nesting::{self, Inside};
use crate::pool::LockPool;

/// Returns true if the running code is inside the lock `key`: in the body of a call that holds the
/// lock, while the lease lasts. Use this in code that must never run outside its lock. See also
/// [`assert_held!`](crate::assert_held).
///
/// The answer follows the call path: through awaits, nested calls, `join!` and `select!`, into
/// tasks spawned by [`leasehold::spawn`](crate::spawn), and into bodies of calls with `detach`. Any
/// other spawned task is outside. Every kind of lock counts, including shares and permits, and so
/// does every pool ([`LockPool::is_held`] checks one pool). The check sends nothing to the store,
/// and takes about as long as reading the clock.
///
/// A [`LockGuard`](crate::LockGuard) from [`acquire`](crate::LockRequest::acquire) has no body and
/// does not count. Pass the guard to the code instead.
///
/// ```
/// use leasehold::{LockError, distributed_lock, is_held};
///
/// #[distributed_lock(key = "account:<id>", ttl = "10s")]
/// async fn withdraw(id: u64) -> Result<bool, LockError> {
///     Ok(is_held("account:7"))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), LockError> {
/// leasehold::init("memory://").await?;
/// assert_eq!(withdraw(7).await, Ok(true));
/// assert_eq!(withdraw(8).await, Ok(false));
/// assert!(!is_held("account:7"));
/// # Ok(()) }
/// ```
pub fn is_held(key: &str) -> bool {
    matches!(nesting::inside_of(key), Inside::Held)
}

impl LockPool {
    /// Returns true if the running code is inside the lock `key` of this pool. Use this instead of
    /// [`leasehold::is_held`](crate::is_held) if the program uses the same key in two pools.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use leasehold::{LockError, LockPool};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), LockError> {
    /// let (one, two) = (LockPool::connect("memory://").await?, LockPool::connect("memory://").await?);
    /// let body = async { (one.is_held("order:42"), two.is_held("order:42")) };
    /// let held = one.lock("order:42").ttl(Duration::from_secs(10)).run(body).await?;
    /// assert_eq!(held, (true, false));
    /// # Ok(()) }
    /// ```
    pub fn is_held(&self, key: &str) -> bool {
        nesting::is_inside(self.id(), &self.full_key(key))
    }
}

/// Panics unless the running code is inside the lock of this key, and the lock's lease lasts. The
/// check runs in debug and release builds.
///
/// The first argument is the key: a `&str`, a `String`, or any other `AsRef<str>`. A panic message
/// may follow, as in [`assert!`]. See [`is_held`](crate::is_held()) for the exact condition.
///
/// Write values into the key like the attribute does: [`encode`](crate::encode) each value that may
/// contain `:`, `%`, braces or white space.
///
/// ```
/// use leasehold::{LockError, assert_held, distributed_lock};
///
/// /// Only for holders of the account's lock.
/// fn book(id: u64, cents: i64) {
///     assert_held!(format!("account:{id}"));
///     // … the row is read and written here …
/// }
///
/// #[distributed_lock(key = "account:<id>", ttl = "10s")]
/// async fn withdraw(id: u64, cents: i64) -> Result<(), LockError> {
///     book(id, -cents);
///     Ok(())
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), LockError> {
/// leasehold::init("memory://").await?;
/// withdraw(7, 100).await?;
/// let outside = std::panic::catch_unwind(|| book(7, 100));
/// assert!(outside.is_err());
/// # Ok(()) }
/// ```
///
/// # Panics
///
/// If the code is outside of the lock, or the lock's lease is over.
#[macro_export]
macro_rules! assert_held {
    ($key:expr $(,)?) => {
        $crate::__private::assert_held(
            $crate::__private::core::convert::AsRef::<str>::as_ref(&$key),
            $crate::__private::core::option::Option::None,
        )
    };
    ($key:expr, $($text:tt)+) => {
        $crate::__private::assert_held(
            $crate::__private::core::convert::AsRef::<str>::as_ref(&$key),
            $crate::__private::core::option::Option::Some(
                $crate::__private::core::format_args!($($text)+),
            ),
        )
    };
}

/// Implements [`assert_held!`](crate::assert_held).
///
/// # Panics
///
/// If the code is outside of the lock, or the lock's lease is over.
#[track_caller]
pub fn assert_held(key: &str, text: Option<fmt::Arguments<'_>>) {
    let reason = match nesting::inside_of(key) {
        Inside::Held => return,
        Inside::Lost => "its lease is over, so another call may hold it".to_owned(),
        Inside::Outside(held) if held.is_empty() => {
            "no call on this path holds a lock; a plain `tokio::spawn` leaves the path, but \
             `leasehold::spawn` does not"
                .to_owned()
        }
        Inside::Outside(held) => format!("this call path holds `{}`", held.join("`, `")),
    };
    match text {
        Some(text) => panic!("{text}: the lock `{key}` is not held here: {reason}"),
        None => panic!("the lock `{key}` is not held here: {reason}"),
    }
}
