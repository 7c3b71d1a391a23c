//! One call of an annotated function.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use super::acquire::{Begun, begin};
use super::call_site::{At, Site};
use super::detach::run_detached;
use super::gate::{Keep, OnLost, run_inside};
use super::guard::LockHandle;
use super::held::HeldLocks;
use super::leases::Locks;
use super::settings::{Beat, Settings};
use crate::engine::core::ticket::Share;
use crate::error::LockError;
use crate::key::Key;
use crate::pool::{LockPool, installed};

type Detached<T> = Pin<Box<dyn Future<Output = Result<T, LockError>> + Send>>;

/// What a function with `hold` returns.
#[diagnostic::on_unimplemented(
    message = "`hold` keeps the lock after `Ok`, and `{Self}` is no `Result`",
    label = "no `Result`",
    note = "return a `Result`, or leave `hold` out"
)]
pub trait Outcome<Hint> {
    /// Whether the lock stays after this value.
    fn is_ok(&self) -> bool;
}

#[diagnostic::do_not_recommend]
impl<T, E, Hint> Outcome<Hint> for Result<T, E> {
    fn is_ok(&self) -> bool {
        self.is_ok()
    }
}

/// One call of an annotated function: its keys and settings. Small, because it lives in the
/// function's future.
#[derive(Debug)]
pub struct Call {
    parts: Box<Parts>,
    locks: Locks,
}

#[derive(Debug)]
struct Parts {
    site: &'static Site,
    invalid: Option<LockError>,
    settings: Settings,
    pool: PoolChoice,
}

#[derive(Debug)]
enum PoolChoice {
    Installed,
    Named(&'static str),
    Given(LockPool),
}

impl Call {
    /// A call that locks `key` for `ttl`; nothing is sent yet.
    pub fn new(site: &'static Site, key: Key, ttl: Duration) -> Self {
        Self::with(site, key.finish().map(Locks::one), ttl)
    }

    /// A call that locks all of `keys`.
    pub fn new_all<const N: usize>(site: &'static Site, keys: [Key; N], ttl: Duration) -> Self {
        let names: Result<Vec<String>, LockError> = keys.into_iter().map(Key::finish).collect();
        Self::with(site, names.and_then(Locks::all), ttl)
    }

    fn with(site: &'static Site, locks: Result<Locks, LockError>, ttl: Duration) -> Self {
        let (locks, invalid) = match locks {
            Ok(locks) => (locks, None),
            Err(error) => (Locks::one(String::new()), Some(error)),
        };
        let settings = Settings {
            ttl: Some(ttl),
            ..Settings::default()
        };
        let pool = PoolChoice::Installed;
        Self {
            parts: Box::new(Parts {
                site,
                invalid,
                settings,
                pool,
            }),
            locks,
        }
    }

    /// `watchdog`
    #[must_use]
    pub fn watchdog(mut self) -> Self {
        self.parts.settings.watchdog = Some(Beat::Default);
        self
    }

    /// `watchdog = "3s"`
    #[must_use]
    pub fn watchdog_every(mut self, interval: Duration) -> Self {
        self.parts.settings.watchdog = Some(Beat::Every(interval));
        self
    }

    /// `max_hold = "60s"`
    #[must_use]
    pub fn max_hold(mut self, limit: Duration) -> Self {
        self.parts.settings.max_hold = Some(limit);
        self
    }

    /// `wait = "2s"`
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.parts.settings.wait = Some(wait);
        self
    }

    /// `reentrant`
    #[must_use]
    pub fn reentrant(mut self) -> Self {
        self.parts.settings.reentrant = true;
        self
    }

    /// `shared`
    #[must_use]
    pub fn shared(mut self) -> Self {
        self.parts.settings.share = Some(Share::Reader);
        self
    }

    /// `permits = 3`
    #[must_use]
    pub fn permits(mut self, permits: u32) -> Self {
        self.parts.settings.share = Some(Share::Permit(permits));
        self
    }

    /// `on_lost = "continue"`
    #[must_use]
    pub fn continue_on_lost(mut self) -> Self {
        self.parts.settings.on_lost = OnLost::Continue;
        self
    }

    /// `pool = "inventory"`
    #[must_use]
    pub fn pool_named(mut self, name: &'static str) -> Self {
        self.parts.pool = PoolChoice::Named(name);
        self
    }

    /// `pool = self.locks`; an `&Arc<LockPool>` coerces.
    #[must_use]
    pub fn pool(mut self, pool: &LockPool) -> Self {
        self.parts.pool = PoolChoice::Given(pool.clone());
        self
    }

    /// `guard = lock`: the handle. It has its leases from the grant on.
    pub fn handle(&self) -> LockHandle {
        LockHandle::new(self.locks.clone())
    }

    /// `at_least = "30s"`
    #[must_use]
    pub fn at_least(mut self, at_least: Duration) -> Self {
        self.parts.settings.at_least = Some(at_least);
        self
    }

    /// `hold = "3s"`; with [`run_holding`](Self::run_holding) or
    /// [`run_detached_holding`](Self::run_detached_holding).
    #[must_use]
    pub fn hold(mut self, hold: Duration) -> Self {
        self.parts.settings.hold = Some(hold);
        self
    }

    /// Takes the lock, runs the body inside it, and releases it.
    pub async fn run<F: Future>(self, body: Pin<&mut Option<F>>) -> Result<F::Output, LockError> {
        let on_lost = self.parts.settings.on_lost;
        run_inside(self.take().await?, body, on_lost, None).await
    }

    /// As [`run`](Self::run), and the lock stays for a while after `Ok`.
    pub async fn run_holding<F, Hint>(
        self,
        body: Pin<&mut Option<F>>,
        _: Hint,
    ) -> Result<F::Output, LockError>
    where
        F: Future<Output: Outcome<Hint>>,
    {
        let (on_lost, keep) = (self.parts.settings.on_lost, self.keep());
        run_inside(self.take().await?, body, on_lost, keep).await
    }

    /// `detach`: takes the lock, and runs the body inside it to its end even if the caller goes
    /// away.
    ///
    /// Boxed, so that the body's type is not a part of the future's type. The compiler then checks
    /// the bounds of the body once, here.
    pub fn run_detached<F>(self, body: F) -> Detached<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let on_lost = self.parts.settings.on_lost;
        Box::pin(run_detached(self.take(), body, on_lost, None))
    }

    /// As [`run_detached`](Self::run_detached), and the lock stays for a while after `Ok`.
    pub fn run_detached_holding<F, Hint>(self, body: F, _: Hint) -> Detached<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Outcome<Hint> + Send + 'static,
    {
        let (on_lost, keep) = (self.parts.settings.on_lost, self.keep());
        Box::pin(run_detached(self.take(), body, on_lost, keep))
    }

    fn keep<T: Outcome<Hint>, Hint>(&self) -> Option<Keep<T>> {
        let hold = self.parts.settings.hold?;
        let good = T::is_ok;
        Some(Keep { hold, good })
    }

    async fn take(self) -> Result<HeldLocks, LockError> {
        let Self { parts, locks } = self;
        // Consume `parts` before the await, so that it is not stored in the future.
        let begun = parts.begin(&locks)?;
        begun.taken(locks).await
    }
}

impl Parts {
    fn begin(self, locks: &Locks) -> Result<Begun, LockError> {
        let Self {
            site,
            invalid,
            settings,
            pool,
        } = self;
        if let Some(error) = invalid {
            return Err(error);
        }
        let pool = match pool {
            PoolChoice::Installed => installed::current()?,
            PoolChoice::Named(name) => installed::named(name)?,
            PoolChoice::Given(pool) => pool,
        };
        begin(pool, locks, &settings, At::Function(site))
    }
}
