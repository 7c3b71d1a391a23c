//! The backend for `redis://` and `redis-sentinel://`.

use std::fmt;

use super::look::RedisSource;
use super::master_address::MasterAddress;
use super::store::RedisStore;
use crate::error::LockError;
use crate::replicas::Replicas;
use crate::store::Connecting;
use crate::store::backend::{Backend, Checking};
use crate::store::background;
use crate::store::options::Options;
use crate::store::source::Source;

/// The address of one master, or of the Sentinels that name it.
#[derive(Clone)]
pub(crate) struct Redis {
    master: MasterAddress,
    /// The value of `replicas` in the URL.
    replicas: Option<Replicas>,
}

impl Redis {
    pub(crate) fn parse(url: &str) -> Result<Self, LockError> {
        let (master, replicas) = MasterAddress::parse(url)?;
        Ok(Self { master, replicas })
    }

    /// Applies the pool's certificates and credentials to the address, and the URL's `replicas` to
    /// `options`.
    fn with(self, options: Options) -> Result<(MasterAddress, Options), LockError> {
        let master = self.master.with_tls(&options.tls)?;
        let master = master.with_logins(options.logins.as_ref());
        Ok((master, options.or_replicas(self.replicas)))
    }
}

impl Backend for Redis {
    fn has_other_clients(&self) -> bool {
        true
    }

    fn accepts(&self, options: &Options) -> Result<(), LockError> {
        self.clone().with(options.clone()).map(drop)
    }

    fn connect(&self, options: Options) -> Connecting {
        let redis = self.clone();
        Box::pin(async move {
            let (master, options) = redis.with(options)?;
            Ok(Box::new(RedisStore::connect(master, &options).await?) as _)
        })
    }

    fn check(&self, options: Options) -> Checking {
        let redis = self.clone();
        background::check(async move {
            let (master, options) = redis.with(options)?;
            RedisStore::check(master, &options).await
        })
    }

    fn source(&self, options: Options) -> Result<Box<dyn Source>, LockError> {
        let (master, options) = self.clone().with(options)?;
        Ok(Box::new(RedisSource::new(master, &options)))
    }
}

impl fmt::Display for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.master.fmt(f)
    }
}
