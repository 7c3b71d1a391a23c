//! Connecting a pool: checks its configuration, connects to the store, and starts the engine.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::watch;

use super::LockPoolBuilder;
use crate::base::clock::Clock;
use crate::base::token::Nonce;
use crate::engine::core::signal::Limits;
use crate::engine::driver::handle::Engine;
#[cfg(feature = "testing")]
use crate::engine::driver::observer::Watch;
use crate::engine::driver::thread::{self, Place};
use crate::error::LockError;
use crate::key;
use crate::pool::look::observer::Observer;
use crate::pool::{Inner, LockPool, PoolId};
use crate::store::Connecting;
use crate::store::backend::Target;
use crate::store::credentials::Provider;
use crate::store::memory::space::Space;
use crate::store::options::Options;

const SHORTEST_IO_TIMEOUT: Duration = Duration::from_millis(1);
const LONGEST_IO_TIMEOUT: Duration = Duration::from_secs(60 * 60);
/// The engine requests no further lock while this many requests have no answer. A server answers
/// this many requests within a few dozen milliseconds, so this limit delays a further request by no
/// more than that.
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
        let connection = Connection::new(self, target);
        let connecting = connection.target.connect(connection.options.clone());
        let connecting = connection.noting(connecting);
        let (place, name) = (connection.builder.place, connection.name());
        let (limits, clock) = (connection.limits, connection.options.clock);
        let engine = thread::start(place, name, limits, clock, connecting).await?;
        Ok(connection.pool(engine))
    }

    pub(crate) fn check(&self) -> Result<(), LockError> {
        key::check_namespace(&self.namespace)?;
        if !(SHORTEST_IO_TIMEOUT..=LONGEST_IO_TIMEOUT).contains(&self.io_timeout) {
            return Err(LockError::config(
                "`io_timeout` must be between 1 ms and 1 h; the default is 1 s",
            ));
        }
        #[cfg(feature = "replay")]
        self.check_replay_limit()?;
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

/// Returns the source of credentials: the builder's, or else the password file named in the URL.
fn logins(builder: &LockPoolBuilder, target: &Target) -> Option<Provider> {
    let file = || Some(Provider::file(target.password_file()?.to_owned()));
    builder.credentials.clone().or_else(file)
}

/// A pool whose engine has not started.
pub(super) struct Connection {
    pub(super) builder: LockPoolBuilder,
    pub(super) target: Target,
    pub(super) options: Options,
    pub(super) limits: Limits,
    /// The locks of a store in this process. None for a store on a server. Set when the store is
    /// connected.
    local: Arc<OnceLock<Option<Arc<Space>>>>,
}

impl Connection {
    pub(super) fn new(builder: LockPoolBuilder, target: Target) -> Self {
        let clock = target.clock(match builder.place {
            Place::Thread => Clock::System,
            Place::CurrentRuntime => Clock::tokio(),
        });
        let mut limits = builder.limits();
        let options = Options {
            clock,
            namespace: builder.namespace.clone(),
            replicas: builder.replicas,
            make_way_after: builder.fairness.make_way_after,
            tls: builder.tls.clone(),
            logins: logins(&builder, &target),
            ..Options::new(builder.io_timeout)
        };
        if !target.has_other_clients() {
            limits.make_way_after = Duration::ZERO;
        }
        Self {
            builder,
            target,
            options,
            limits,
            local: Arc::default(),
        }
    }

    /// Returns the store's URL without its password.
    pub(super) fn name(&self) -> String {
        self.target.to_string()
    }

    /// Returns a future that runs `connecting`, and then sets `local` to the locks of the connected
    /// store.
    pub(super) fn noting(&self, connecting: Connecting) -> Connecting {
        let local = Arc::clone(&self.local);
        Box::pin(async move {
            let store = connecting.await?;
            local.get_or_init(|| store.local());
            Ok(store)
        })
    }

    pub(super) fn pool(self, engine: Engine) -> LockPool {
        let place = self.name();
        let Self {
            builder,
            target,
            options,
            local,
            ..
        } = self;
        if let Some(watch) = &builder.watch {
            engine.watched_by(Arc::clone(watch));
        }
        let local = local.get().cloned().flatten();
        LockPool {
            inner: Arc::new(Inner {
                id: PoolId::next(),
                engine,
                watch: builder.watch,
                shut_down: watch::Sender::new(false),
                nonce: Nonce::new(),
                namespace: builder.namespace,
                wait: builder.wait,
                retry_hint: builder.fairness.retry_hint,
                log_keys: builder.log_keys,
                #[cfg(feature = "replay")]
                replay_limit: builder.replay_limit,
                own_thread: builder.place == Place::Thread,
                place,
                observer: Observer::new(target.clone(), options.clone(), local),
                target,
                options,
            }),
        }
    }
}
