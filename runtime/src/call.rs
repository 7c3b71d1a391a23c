//! One call of an annotated function.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::engine::Slot;
use crate::gate::{OnLost, run_inside};
use crate::guard::Hold;
use crate::key::Key;
use crate::request::{Beat, Settings};
use crate::{LockError, LockHandle, LockPool, installed};

/// Where an annotated function stands.
#[derive(Debug)]
pub struct Site {
    /// Its path, `shop::orders::create_order`.
    pub function: &'static str,
    /// `file!()`.
    pub file: &'static str,
    /// `line!()`.
    pub line: u32,
}

/// One call of an annotated function: what to lock, and how. Small, because it lives in the function's future.
#[derive(Debug)]
pub struct Call {
    parts: Box<Parts>,
    slot: Arc<Slot>,
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
        let (name, invalid) = match key.finish() {
            Ok(name) => (name, None),
            Err(error) => (String::new(), Some(error)),
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
            slot: Slot::new(name.into()),
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

    /// `guard = lock`: the handle fills in at the grant.
    pub fn handle(&self) -> LockHandle {
        LockHandle::new(Arc::clone(&self.slot))
    }

    /// Takes the lock, runs the body inside it, and releases it.
    pub async fn run<F: Future>(self, body: Pin<&mut Option<F>>) -> Result<F::Output, LockError> {
        let on_lost = self.parts.settings.on_lost;
        let hold = self.take().await?;
        run_inside(hold, body, on_lost).await
    }

    async fn take(self) -> Result<Hold, LockError> {
        let parts = *self.parts;
        if let Some(error) = parts.invalid {
            return Err(error);
        }
        let pool = match parts.pool {
            PoolChoice::Installed => installed::current()?,
            PoolChoice::Named(name) => installed::named(name)?,
            PoolChoice::Given(pool) => pool,
        };
        let order = parts
            .settings
            .order(&pool, self.slot.name(), parts.site.function)?;
        Hold::take(pool, self.slot, order).await
    }
}
