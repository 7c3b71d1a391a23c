//! Connecting a pool: the checks of its configuration, the options of the store, and the start of
//! the engine.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::watch;

use super::LockPoolBuilder;
use crate::base::clock::Clock;
use crate::base::token::Nonce;
#[cfg(feature = "testing")]
use crate::engine::driver::observer::Watch;
use crate::engine::driver::thread::{self, Place};
use crate::error::LockError;
use crate::key;
use crate::pool::look::observer::Observer;
use crate::pool::{Inner, LockPool, PoolId};
use crate::store::Connecting;
use crate::store::backend::Target;
use crate::store::memory::space::Space;
use crate::store::options::Options;

const SHORTEST_IO_TIMEOUT: Duration = Duration::from_millis(1);
const LONGEST_IO_TIMEOUT: Duration = Duration::from_secs(60 * 60);
/// The store's marks would show nothing for a shorter time.
const SHORTEST_MAKE_WAY_AFTER: Duration = Duration::from_millis(10);
/// As long as the longest ttl.
const LONGEST_MAKE_WAY_AFTER: Duration = Duration::from_secs(24 * 60 * 60);
const SHORTEST_RETRY_HINT: Duration = Duration::from_millis(1);
/// As long as the longest ttl.
const LONGEST_RETRY_HINT: Duration = Duration::from_secs(24 * 60 * 60);

impl LockPoolBuilder {
    /// Sets a test kit that observes all calls of the pool.
    #[cfg(feature = "testing")]
    pub(crate) fn watched_by(mut self, watch: Arc<dyn Watch>) -> Self {
        self.watch = Some(watch);
        self
    }

    /// Returns the store in the URL, if the rest of the configuration is valid.
    pub(crate) fn target(&self) -> Result<Target, LockError> {
        let target = Target::parse(self.url.as_deref().unwrap_or_default());
        self.check()?;
        target
    }

    pub(crate) async fn connect_to(self, target: Target) -> Result<LockPool, LockError> {
        let clock = target.clock(match self.place {
            Place::Thread => Clock::System,
            Place::CurrentRuntime => Clock::tokio(),
        });
        let place = target.to_string();
        let options = Options {
            clock,
            namespace: self.namespace.clone(),
            replicas: self.replicas,
            make_way_after: self.limits.make_way_after,
            tls: self.tls,
            ..Options::new(self.limits.io_timeout)
        };
        let mut limits = self.limits;
        if !target.has_other_clients() {
            limits.make_way_after = Duration::ZERO;
        }
        let local = Arc::new(OnceLock::new());
        let connecting = noting(target.connect(options.clone()), Arc::clone(&local));
        let engine = thread::start(self.place, place.clone(), limits, clock, connecting).await?;
        if let Some(watch) = &self.watch {
            engine.watched_by(Arc::clone(watch));
        }
        let local = local.get().cloned().flatten();
        Ok(LockPool {
            inner: Arc::new(Inner {
                id: PoolId::next(),
                engine,
                watch: self.watch,
                shut_down: watch::Sender::new(false),
                nonce: Nonce::new(),
                namespace: self.namespace,
                wait: self.wait,
                retry_hint: self.limits.retry_hint,
                log_keys: self.log_keys,
                #[cfg(feature = "replay")]
                replay_limit: self.replay_limit,
                own_thread: self.place == Place::Thread,
                place,
                observer: Observer::new(target.clone(), options.clone(), local),
                target,
                options,
            }),
        })
    }

    pub(crate) fn check(&self) -> Result<(), LockError> {
        key::check_namespace(&self.namespace)?;
        if !(SHORTEST_IO_TIMEOUT..=LONGEST_IO_TIMEOUT).contains(&self.limits.io_timeout) {
            return Err(LockError::config(
                "an `io_timeout` is between 1 ms and 1 h; the default is 1 s",
            ));
        }
        if self
            .limits
            .retry_hint
            .is_some_and(|hint| !(SHORTEST_RETRY_HINT..=LONGEST_RETRY_HINT).contains(&hint))
        {
            return Err(LockError::config(
                "a `retry_hint` is between 1 ms and 24 h; leave it out for an estimate",
            ));
        }
        let after = self.limits.make_way_after;
        if !after.is_zero() && !(SHORTEST_MAKE_WAY_AFTER..=LONGEST_MAKE_WAY_AFTER).contains(&after)
        {
            return Err(LockError::config(
                "`make_way_after` is between 10 ms and 24 h, or zero for never; the default is 1 s",
            ));
        }
        Ok(())
    }
}

/// Wraps `connecting`. Records the locks of the store in `local`, if they are in this process.
fn noting(connecting: Connecting, local: Arc<OnceLock<Option<Arc<Space>>>>) -> Connecting {
    Box::pin(async move {
        let store = connecting.await?;
        local.get_or_init(|| store.local());
        Ok(store)
    })
}
