//! Connecting a pool: the checks of its configuration, the options of the store, and the start of
//! the engine.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

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
use crate::store::login::Logins;
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

/// Returns the source of credentials: the builder's, or else the file of the URL.
fn logins(builder: &LockPoolBuilder, target: &Target) -> Option<Logins> {
    let file = || Some(Provider::file(target.password_file()?.to_owned()));
    let provider = builder.credentials.clone().or_else(file);
    provider.map(Logins::new)
}

/// A pool whose engine has not started.
pub(super) struct Connection {
    pub(super) builder: LockPoolBuilder,
    pub(super) target: Target,
    pub(super) options: Options,
    pub(super) limits: Limits,
    /// The locks of the store, if they are in this process. Set once the store is connected.
    local: Arc<OnceLock<Option<Arc<Space>>>>,
}

impl Connection {
    pub(super) fn new(builder: LockPoolBuilder, target: Target) -> Self {
        let clock = target.clock(match builder.place {
            Place::Thread => Clock::System,
            Place::CurrentRuntime => Clock::tokio(),
        });
        let mut limits = builder.limits;
        let options = Options {
            clock,
            namespace: builder.namespace.clone(),
            replicas: builder.replicas,
            make_way_after: limits.make_way_after,
            tls: builder.tls.clone(),
            logins: logins(&builder, &target),
            ..Options::new(limits.io_timeout)
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

    /// Wraps `connecting`. Notes the locks of the store, if they are in this process.
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
                shut_down: AtomicBool::new(false),
                nonce: Nonce::new(),
                namespace: builder.namespace,
                wait: builder.wait,
                retry_hint: builder.limits.retry_hint,
                log_keys: builder.log_keys,
                #[cfg(feature = "replay")]
                replay_limit: builder.replay_limit,
                place,
                observer: Observer::new(target.clone(), options.clone(), local),
                target,
                options,
            }),
        }
    }
}
