//! The backend of `postgres://`.

use super::address::Address;
use super::look::PostgresSource;
use super::store::PostgresStore;
use crate::error::LockError;
use crate::store::Connecting;
use crate::store::backend::{Backend, Checking};
use crate::store::background;
use crate::store::options::Options;
use crate::store::source::Source;

impl Address {
    /// Returns this address with the pool's certificates and credentials. Refuses `replicas`, which
    /// is an option for Redis.
    fn with(self, options: &Options) -> Result<Self, LockError> {
        options.refuse_replicas(
            "`replicas` is for Redis; for `postgres://` set `synchronous_standby_names` on the server, and every lock waits for its standbys",
        )?;
        Ok(self
            .with_tls(&options.tls)?
            .with_logins(options.logins.as_ref()))
    }
}

impl Backend for Address {
    fn accepts(&self, options: &Options) -> Result<(), LockError> {
        self.clone().with(options).map(drop)
    }

    fn verifies(&self) -> bool {
        true
    }

    fn connect(&self, options: Options) -> Connecting {
        let address = self.clone();
        Box::pin(async move {
            let address = address.with(&options)?;
            Ok(Box::new(PostgresStore::connect(address, &options).await?) as _)
        })
    }

    fn check(&self, options: Options) -> Checking {
        let address = self.clone();
        background::check(
            async move { PostgresStore::check(address.with(&options)?, &options).await },
        )
    }

    fn source(&self, options: Options) -> Result<Box<dyn Source>, LockError> {
        let address = self.clone().with(&options)?;
        Ok(Box::new(PostgresSource::new(address, &options)))
    }
}
