//! Functions in every supported shape, under all lints of rustc and clippy at level `forbid`.
//! `tests/lints.rs` lists the exceptions. Two lints of clippy demand opposite styles, so each
//! `return` is written out here, and omitted in `forbidden_too`.

use core::convert::Infallible;
use core::fmt::Display;
use core::future::{Future, pending};
use core::hint::spin_loop;
use core::pin::Pin;
use core::time::Duration;
use std::sync::Arc;

use leasehold::{LockError, LockPool, distributed_lock};

use super::support::tick;

/// A `ttl` given as an expression instead of as text.
const TTL: Duration = Duration::from_secs(2);

/// A key defined outside of the attribute.
const NIGHTLY: &str = "nightly";

/// An argument with fields and methods.
#[derive(Clone, Debug)]
pub(super) struct Account {
    /// The balance in cents.
    cents: u64,
    /// The number of the account, for keys.
    id: u64,
    /// The pool of the account's locks.
    locks: LockPool,
}

/// The type of the argument `_permit`, which the body does not use.
#[derive(Debug)]
pub(super) struct Permit;

/// A function with argument names in its key, and with unused arguments.
#[distributed_lock(key = "order:<id>", ttl = "10s")]
pub(super) async fn create(
    id: u64,
    _note: String,
    _permit: Permit,
    _: Vec<u8>,
) -> Result<u64, LockError> {
    tick().await;
    return Ok(id);
}

/// A function whose body is one expression, in one line.
#[rustfmt::skip]
#[distributed_lock(key = "order:<id>", ttl = "10s")]
pub(super) async fn one_line(id: u64) -> Result<u64, LockError> { return Ok(id); }

/// A function with many options in one attribute.
#[distributed_lock(
    key = "all:<id>",
    ttl = TTL,
    watchdog = "300ms",
    max_hold = "1m",
    wait = "2s",
    cooldown = "1ms",
    min_hold = "1ms",
    reentrant,
    on_lost = "continue",
    on_error = Err,
    guard = lock
)]
pub(super) async fn every_option(id: u64) -> Result<u64, LockError> {
    tick().await;
    lock.check()?;
    return Ok(id);
}

/// A function with several keys. One of them is an expression.
#[distributed_lock(key = ["account:<from.id>", into.id, NIGHTLY], ttl = "10s")]
pub(super) async fn transfer(from: &Account, into: &Account) -> Result<u64, LockError> {
    tick().await;
    return Ok(from.cents.saturating_add(into.cents));
}

/// A function with a shared lock.
#[distributed_lock(key = "catalog", ttl = "10s", wait = "1s", shared)]
pub(super) async fn search() -> Result<(), LockError> {
    tick().await;
    return Ok(());
}

/// A function with permits and an unused guard.
#[distributed_lock(key = "partner", ttl = "10s", permits = 3, guard = _lock)]
pub(super) async fn call_partner() -> Result<(), LockError> {
    tick().await;
    return Ok(());
}

/// A function with a body that outlives its caller.
#[distributed_lock(key = "order:<id>", ttl = "10s", detach, cooldown = "1ms")]
pub(super) async fn detached(id: u64, _note: String) -> Result<u64, LockError> {
    tick().await;
    return Ok(id);
}

/// A function whose result is kept, so that a repeated call returns the result again.
#[distributed_lock(key = "order:<id>", ttl = "10s", replay = "1m", fingerprint = (&cart, id))]
pub(super) async fn replayed(id: u64, cart: Vec<u64>) -> Result<u64, LockError> {
    tick().await;
    drop(cart);
    return Ok(id);
}

/// A function with an error type other than `LockError`, and with a closure that gets the error.
#[distributed_lock(key = "sweep", ttl = "10s", on_error = |error| return Err(error.to_string()))]
pub(super) async fn sweep() -> Result<u64, String> {
    tick().await;
    return Ok(1);
}

/// A function without a returned value, whose body is one expression.
#[rustfmt::skip]
#[distributed_lock(key = "sweep", ttl = "10s", on_error = drop)]
pub(super) async fn sweep_in_one_line() { tick().await; }

/// A function that never returns.
#[distributed_lock(key = "worker", ttl = "10s", watchdog, on_error = |_| -> ! { loop { spin_loop() } })]
pub(super) async fn work() -> ! {
    match pending::<Infallible>().await {}
}

/// A function with type parameters. `I` implements `Display` for the key, and `E` converts from
/// `LockError`.
#[distributed_lock(key = "thing:<id>", ttl = "10s")]
pub(super) async fn generic<I, T, E>(id: I, value: T) -> Result<(String, T), E>
where
    I: Display,
    E: From<LockError>,
{
    tick().await;
    return Ok((id.to_string(), value));
}

/// A function with a lifetime, and with `impl Display` in an argument and in the return type.
#[distributed_lock(key = "page:<name>", ttl = "10s")]
pub(super) async fn lifetimes<'page>(
    name: &'page str,
    other: &'page str,
    shown: impl Display,
) -> Result<impl Display + 'page, LockError> {
    tick().await;
    drop(shown);
    return Ok(name.max(other));
}

/// A function with patterns, mutable arguments, and arguments that a `cfg` removes.
#[distributed_lock(key = "item:<left>:<count>", ttl = "10s")]
pub(super) async fn patterns(
    (left, mut right): (u64, u64),
    Account { cents: count, .. }: Account,
    #[cfg(any())] id: Missing,
    #[cfg(not(any()))] _id: u64,
    r#type: u64,
) -> Result<u64, LockError> {
    tick().await;
    right = right.saturating_add(r#type);
    return Ok(left.saturating_add(count).saturating_add(right));
}

/// A function with an attribute and items inside its body.
#[distributed_lock(key = "order:<id>", ttl = "10s")]
pub(super) async fn items(id: u64) -> Result<u64, LockError> {
    /// The number to add.
    const ONE: u64 = 1;
    tick().await;
    return Ok(id.saturating_add(ONE));
}

/// A function that returns a boxed future.
#[distributed_lock(key = "tree:<depth>", ttl = "10s")]
pub(super) fn boxed(depth: u64) -> Pin<Box<dyn Future<Output = Result<u64, LockError>> + Send>> {
    return Box::pin(async move {
        tick().await;
        return Ok(depth);
    });
}

/// A synchronous function.
#[distributed_lock(key = "report:<day>", ttl = "10s")]
pub(super) fn report(day: u64, _note: String) -> Result<u64, LockError> {
    return Ok(day);
}

/// A synchronous function with many options in one attribute.
#[distributed_lock(
    key = "all:<id>",
    ttl = TTL,
    watchdog = "300ms",
    max_hold = "1m",
    wait = "2s",
    cooldown = "1ms",
    min_hold = "1ms",
    reentrant,
    on_lost = "continue",
    on_error = Err,
    guard = lock
)]
pub(super) fn every_blocking_option(id: u64) -> Result<u64, LockError> {
    lock.check()?;
    return Ok(id);
}

/// A synchronous function, with a kept result.
#[distributed_lock(key = "order:<id>", ttl = "10s", replay = "1m", fingerprint = (&cart, id))]
pub(super) fn replayed_blocking(id: u64, cart: Vec<u64>) -> Result<u64, LockError> {
    drop(cart);
    return Ok(id);
}

/// A function with two locks.
#[distributed_lock(key = "tenant:<tenant>", ttl = "10s")]
#[distributed_lock(key = "order:<id>", ttl = "10s")]
pub(super) async fn stacked(tenant: &str, id: u64) -> Result<String, LockError> {
    tick().await;
    return Ok([tenant, &id.to_string()].concat());
}

impl Account {
    /// A constant in a key.
    const KIND: &'static str = "account";

    /// Creates an account whose locks belong to the pool `locks`.
    pub(super) const fn new(id: u64, cents: u64, locks: LockPool) -> Self {
        return Self { cents, id, locks };
    }

    /// A synchronous method.
    #[distributed_lock(key = "account:<self.id>", ttl = "10s", pool = self.locks)]
    pub(super) fn withdraw(&mut self, cents: u64) -> Result<u64, LockError> {
        self.cents = self.cents.saturating_sub(cents);
        return Ok(self.cents);
    }

    /// A method whose pool is in a field.
    #[distributed_lock(key = "<Self::KIND>:<self.id>", ttl = "10s", pool = self.locks)]
    pub(super) async fn balance(&self) -> Result<u64, LockError> {
        tick().await;
        return Ok(self.cents);
    }

    /// A method whose key contains the result of another method.
    #[distributed_lock(key = "account:<self.number()>", ttl = "10s", pool = self.locks.clone())]
    pub(super) async fn deposit(&mut self, cents: u64) -> Result<(), LockError> {
        tick().await;
        self.cents = self.cents.saturating_add(cents);
        return Ok(());
    }

    /// A method with a receiver by value.
    #[distributed_lock(key = "account:<self.id>", ttl = "10s")]
    pub(super) async fn close(self) -> Result<u64, LockError> {
        tick().await;
        return Ok(self.cents);
    }

    /// A method with a receiver in an `Arc`.
    #[distributed_lock(key = "account:<self.id>", ttl = "10s", detach)]
    pub(super) async fn audit(self: Arc<Self>) -> Result<u64, LockError> {
        tick().await;
        return Ok(self.cents);
    }

    /// Returns the number for a key.
    const fn number(&self) -> u64 {
        return self.id;
    }
}

/// Methods of a trait.
pub(super) trait Till {
    /// A method without a body.
    async fn pay(&self, cents: u64) -> Result<u64, LockError>;

    /// A method with a body.
    #[distributed_lock(key = "till:<cents>", ttl = "10s")]
    async fn count(&self, cents: u64) -> Result<u64, LockError> {
        tick().await;
        return Ok(cents);
    }
}

impl Till for Account {
    #[distributed_lock(key = "till:<self.id>", ttl = "10s")]
    async fn pay(&self, cents: u64) -> Result<u64, LockError> {
        tick().await;
        return Ok(self.cents.saturating_add(cents));
    }
}
