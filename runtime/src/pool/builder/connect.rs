//! Connecting a pool: checks its configuration, connects to the store, and starts the engine.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::watch;

use super::LockPoolBuilder;
use crate::base::clock::Clock;
use crate::base::token::Nonce;
use crate::engine::core::signal::Limits;
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
/// The engine requests no further lock while this many requests have no answer. A server answers
/// this many requests within a few dozen milliseconds.
const IN_FLIGHT: usize = 4096;

impl LockPoolBuilder {
    /// Sets a test kit that observes all calls of the pool.
    #[cfg(feature = "testing")]
    pub(crate) fn watched_by(mut self, watch: Arc<dyn Watch>) -> Self {
        self.watch = Some(watch);
        self
    }

    /// Parses the URL into a store, and checks the rest of the configuration.
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
        let mut limits = self.limits();
        if !target.has_other_clients() {
            limits.make_way_after = Duration::ZERO;
        }
        let options = Options {
            clock,
            namespace: self.namespace.clone(),
            replicas: self.replicas,
            make_way_after: self.fairness.make_way_after,
            tls: self.tls,
            ..Options::new(self.io_timeout)
        };
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
                retry_hint: self.fairness.retry_hint,
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
        if !(SHORTEST_IO_TIMEOUT..=LONGEST_IO_TIMEOUT).contains(&self.io_timeout) {
            return Err(LockError::config(
                "`io_timeout` must be between 1 ms and 1 h; the default is 1 s",
            ));
        }
        self.fairness.check()
    }

    fn limits(&self) -> Limits {
        let fairness = &self.fairness;
        Limits {
            io_timeout: self.io_timeout,
            max_waiters: fairness.max_waiters,
            max_passes: fairness.max_passes,
            longest_turn: fairness.longest_turn,
            make_way_after: fairness.make_way_after,
            retry_hint: fairness.retry_hint,
            in_flight: IN_FLIGHT,
        }
    }
}

/// Wraps `connecting`. After the connection, sets `local` to the store's locks, if they are in this
/// process.
fn noting(connecting: Connecting, local: Arc<OnceLock<Option<Arc<Space>>>>) -> Connecting {
    Box::pin(async move {
        let store = connecting.await?;
        local.get_or_init(|| store.local());
        Ok(store)
    })
}
