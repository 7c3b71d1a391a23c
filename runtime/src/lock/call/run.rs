//! One call of an annotated function, or of [`LockRequest::run`](crate::LockRequest::run).

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::body::{Framed, Good, Owned};
use super::detach;
use super::guard::LockHandle;
#[cfg(feature = "replay")]
use super::replay::{Recorded, Replayable};
use super::section::{HiddenSection, Section};
use crate::engine::core::ticket::Share;
use crate::error::LockError;
use crate::key::Key;
use crate::lock::nest::call_site::{At, Site};
use crate::lock::nest::leases::Locks;
use crate::lock::take::blocking::{Parks, park};
use crate::lock::take::settings::{Beat, OnLost, Settings};
use crate::pool::{LockPool, installed};

/// The future of a call with `detach`. The future is boxed, so that its type does not contain the
/// body's type. So the compiler checks the bounds of the body, such as `Send`, only in the function
/// that boxes it.
type Detached<T> = Pin<Box<dyn Future<Output = Result<T, LockError>> + Send>>;

/// The return type of a function with `cooldown`. The parameter `Hint` only improves rustc's error
/// message for a return type that is not a `Result`: see `hint` in `expanded.rs`.
#[diagnostic::on_unimplemented(
    message = "`cooldown` keeps the lock after `Ok`, but `{Self}` is not a `Result`",
    label = "not a `Result`",
    note = "return a `Result`, or leave `cooldown` out"
)]
pub trait Outcome<Hint> {
    /// True if the value starts the `cooldown`, during which the lock stays taken.
    fn is_ok(&self) -> bool;
}

#[diagnostic::do_not_recommend]
impl<T, E, Hint> Outcome<Hint> for Result<T, E> {
    fn is_ok(&self) -> bool {
        self.is_ok()
    }
}

/// A call of an annotated function, or of [`LockRequest::run`](crate::LockRequest::run). Its state
/// is boxed, because the call is a part of the function's future, which must be small.
pub struct Call(HiddenSection);

/// A call that runs its body.
///
/// The call and the body are variables of the caller. The caller declares the body after the call,
/// and Rust drops variables in reverse order. So if the caller's future is dropped, the body is
/// dropped before the locks are released.
struct Run<'a, F, T> {
    call: &'a mut Call,
    body: Framed<'a, F, T>,
}

// `Unpin` is correct, because the caller has pinned the body, and this struct only refers to it.
impl<F, T> Unpin for Run<'_, F, T> {}

impl<F: Future<Output = T>, T> Future for Run<'_, F, T> {
    type Output = Result<T, LockError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { call, body } = self.get_mut();
        ready!(call.0.section_mut().poll(cx, body))?;
        Poll::Ready(Ok(body.value()))
    }
}

impl Call {
    /// Creates a call that locks `key` for `ttl`. Nothing is sent yet.
    pub fn new(site: &'static Site, key: Key, ttl: Duration) -> Self {
        Self::annotated(site, key.finish().map(Locks::one), ttl)
    }

    /// Creates a call that locks all of `keys`.
    pub fn new_all<const N: usize>(site: &'static Site, keys: [Key; N], ttl: Duration) -> Self {
        Self::of_all(site, Vec::from(keys), ttl)
    }

    fn of_all(site: &'static Site, keys: Vec<Key>, ttl: Duration) -> Self {
        let names: Result<Vec<String>, LockError> = keys.into_iter().map(Key::finish).collect();
        Self::annotated(site, names.and_then(Locks::all), ttl)
    }

    fn annotated(site: &'static Site, locks: Result<Locks, LockError>, ttl: Duration) -> Self {
        let settings = Settings {
            ttl: Some(ttl),
            ..Settings::default()
        };
        Self::with(At::Function(site), locks, settings)
    }

    pub(crate) fn with(at: At, locks: Result<Locks, LockError>, settings: Settings) -> Self {
        Self(Box::new(Section::new(at, locks, settings)))
    }

    fn settings(&mut self) -> &mut Settings {
        &mut self.0.section_mut().settings
    }

    /// Sets the option `watchdog`.
    #[must_use]
    pub fn watchdog(mut self) -> Self {
        self.settings().watchdog = Some(Beat::Default);
        self
    }

    /// Sets the option `watchdog = "3s"`.
    #[must_use]
    pub fn watchdog_every(mut self, interval: Duration) -> Self {
        self.settings().watchdog = Some(Beat::Every(interval));
        self
    }

    /// Sets the option `max_hold = "60s"`.
    #[must_use]
    pub fn max_hold(mut self, limit: Duration) -> Self {
        self.settings().max_hold = Some(limit);
        self
    }

    /// Sets the option `wait = "2s"`.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.settings().wait = Some(wait);
        self
    }

    /// Sets the option `reentrant`.
    #[must_use]
    pub fn reentrant(mut self) -> Self {
        self.settings().reentrant = true;
        self
    }

    /// Sets the option `shared`.
    #[must_use]
    pub fn shared(mut self) -> Self {
        self.settings().share = Some(Share::Reader);
        self
    }

    /// Sets the option `permits = 3`.
    #[must_use]
    pub fn permits(mut self, permits: u32) -> Self {
        self.settings().share = Some(Share::Permit(permits));
        self
    }

    /// Sets the option `on_lost = "continue"`.
    #[must_use]
    pub fn continue_on_lost(mut self) -> Self {
        self.settings().on_lost = OnLost::Continue;
        self
    }

    /// Sets the option `pool = "inventory"`.
    #[must_use]
    pub fn pool_named(mut self, name: &'static str) -> Self {
        self.0.section_mut().set_pool(installed::named(name));
        self
    }

    /// Sets the option `pool = self.locks`. An `&Arc<LockPool>` is also accepted, by deref
    /// coercion.
    #[must_use]
    pub fn pool(mut self, pool: &LockPool) -> Self {
        self.0.section_mut().set_pool(Ok(pool.clone()));
        self
    }

    /// Returns the handle for the option `guard = lock`. Until the locks are granted, the handle
    /// reports them as not held.
    pub fn handle(&self) -> LockHandle {
        LockHandle::new(self.0.section().locks().clone())
    }

    /// Sets the option `min_hold = "30s"`.
    #[must_use]
    pub fn min_hold(mut self, min_hold: Duration) -> Self {
        self.settings().min_hold = Some(min_hold);
        self
    }

    /// Sets the option `cooldown = "3s"`, for [`run_with_cooldown`](Self::run_with_cooldown) or
    /// [`run_detached_with_cooldown`](Self::run_detached_with_cooldown).
    #[must_use]
    pub fn cooldown(mut self, cooldown: Duration) -> Self {
        self.settings().cooldown = Some(cooldown);
        self
    }

    /// Takes the lock, runs the body inside it, and releases it. The caller must declare the body's
    /// variable after that of this call. Rust then drops the body before the lock is released.
    pub fn run<'a, F: Future>(
        &'a mut self,
        body: Pin<&'a mut Option<F>>,
    ) -> impl Future<Output = Result<F::Output, LockError>> {
        self.run_keeping(body, None)
    }

    /// Like [`run`](Self::run), but keeps the lock for the call's `cooldown` after `Ok`.
    pub fn run_with_cooldown<'a, F, Hint>(
        &'a mut self,
        body: Pin<&'a mut Option<F>>,
        _: Hint,
    ) -> impl Future<Output = Result<F::Output, LockError>>
    where
        F: Future<Output: Outcome<Hint>>,
    {
        self.run_keeping(body, Some(Outcome::is_ok))
    }

    /// Runs a call with the option `detach`. The body runs inside the lock to its end, even if the
    /// caller's future is dropped.
    pub fn run_detached<F>(self, body: F) -> Detached<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.run_detached_keeping(body, None)
    }

    /// Like [`run_detached`](Self::run_detached), but keeps the lock for the call's `cooldown`
    /// after `Ok`.
    pub fn run_detached_with_cooldown<F, Hint>(self, body: F, _: Hint) -> Detached<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Outcome<Hint> + Send + 'static,
    {
        self.run_detached_keeping(body, Some(Outcome::is_ok))
    }

    /// Like [`run`](Self::run), for a body that blocks its thread. The thread is parked while the
    /// call waits for the lock.
    pub fn run_blocking<T>(&mut self, body: impl FnOnce() -> T) -> Result<T, LockError> {
        let parks = self.parks();
        park(parks, self.run(pin!(Some(async { body() }))))
    }

    /// Like [`run_blocking`](Self::run_blocking), but keeps the lock for the call's `cooldown`
    /// after `Ok`.
    pub fn run_blocking_with_cooldown<T, Hint>(
        &mut self,
        body: impl FnOnce() -> T,
        hint: Hint,
    ) -> Result<T, LockError>
    where
        T: Outcome<Hint>,
    {
        let parks = self.parks();
        let body = pin!(Some(async { body() }));
        park(parks, self.run_with_cooldown(body, hint))
    }

    fn parks(&mut self) -> Parks {
        let parks = Parks::here(self.0.section().at());
        self.settings().parks = Some(parks);
        parks
    }

    /// Takes the lock, runs the body inside it, and releases it. Keeps the lock for the call's
    /// `cooldown` if `good` returns true for the body's value.
    pub(crate) fn run_keeping<'a, F: Future>(
        &'a mut self,
        body: Pin<&'a mut Option<F>>,
        good: Good<F::Output>,
    ) -> impl Future<Output = Result<F::Output, LockError>> {
        let body = Framed::new(body, good);
        Run { call: self, body }
    }

    /// Like [`run_keeping`](Self::run_keeping), but runs the body in a separate task.
    pub(crate) fn run_detached_keeping<F>(
        self,
        body: F,
        good: Good<F::Output>,
    ) -> Detached<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let (body, value) = Owned::new(body, good);
        let ended = detach::run(self.0, Box::new(body));
        Box::pin(async move {
            ended.await?;
            Ok(value.take())
        })
    }
}

/// Calls with `replay`.
#[cfg(feature = "replay")]
impl Call {
    /// Sets the option `replay = "24h"`, for [`run_replaying`](Self::run_replaying) or
    /// [`run_detached_replaying`](Self::run_detached_replaying).
    #[must_use]
    pub fn replay(mut self, replay: Duration) -> Self {
        self.settings().replay = Some(replay);
        self
    }

    /// Sets the option `fingerprint = cart`.
    #[must_use]
    pub fn fingerprint(mut self, value: &(impl serde::Serialize + ?Sized)) -> Self {
        self.settings().fingerprint = Some(Box::new(super::replay::fingerprint(value)));
        self
    }

    /// Like [`run`](Self::run), but the store keeps the value of `Ok` for later calls. If the store
    /// already has a value, returns that value instead of running the body.
    pub fn run_replaying<'a, F, Hint: 'a>(
        &'a mut self,
        body: Pin<&'a mut Option<F>>,
        _: Hint,
    ) -> impl Future<Output = Result<F::Output, LockError>>
    where
        F: Future<Output: Replayable<Hint>>,
    {
        let mut body = Recorded::new(Framed::new(body, None));
        std::future::poll_fn(move |cx| {
            ready!(self.0.section_mut().poll(cx, &mut body))?;
            Poll::Ready(Ok(body.body().value()))
        })
    }

    /// Like [`run_replaying`](Self::run_replaying), for a body that blocks its thread.
    pub fn run_blocking_replaying<T, Hint>(
        &mut self,
        body: impl FnOnce() -> T,
        hint: Hint,
    ) -> Result<T, LockError>
    where
        T: Replayable<Hint>,
    {
        let parks = self.parks();
        park(
            parks,
            self.run_replaying(pin!(Some(async { body() })), hint),
        )
    }

    /// Like [`run_detached`](Self::run_detached), but the store keeps the value of `Ok` for later
    /// calls. If the store already has a value, returns that value instead of running the body.
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
