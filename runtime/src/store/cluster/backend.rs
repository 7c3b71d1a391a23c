//! The backend for `redis-cluster://`.

use super::address::Address;
use super::look::ClusterSource;
use super::store::ClusterStore;
use crate::error::LockError;
use crate::store::Connecting;
use crate::store::backend::{Backend, Checking};
use crate::store::background;
use crate::store::options::Options;
use crate::store::source::Source;

impl Address {
    /// Applies the pool's certificates and credentials to the address, and the URL's `replicas` to
    /// `options`.
    fn with(self, options: Options) -> Result<(Self, Options), LockError> {
        let options = options.or_replicas(self.replicas);
        let address = self
            .with_tls(&options.tls)?
            .with_logins(options.logins.as_ref());
        Ok((address, options))
    }
}

impl Backend for Address {
    fn has_other_clients(&self) -> bool {
        true
    }

    fn accepts(&self, options: &Options) -> Result<(), LockError> {
        self.clone().with(options.clone()).map(drop)
    }

    fn connect(&self, options: Options) -> Connecting {
        let address = self.clone();
        Box::pin(async move {
            let (address, options) = address.with(options)?;
            Ok(Box::new(ClusterStore::connect(address, &options).await?) as _)
        })
    }

    fn check(&self, options: Options) -> Checking {
        let address = self.clone();
        background::check(async move {
            let (address, options) = address.with(options)?;
            ClusterStore::check(address, &options).await
        })
    }

    fn source(&self, options: Options) -> Result<Box<dyn Source>, LockError> {
        let (address, options) = self.clone().with(options)?;
        Ok(Box::new(ClusterSource::new(address, &options)))
    }
}
