//! `redis-cluster://`.

use super::address::Address;
use super::look::ClusterSource;
use super::store::ClusterStore;
use crate::error::LockError;
use crate::store::Connecting;
use crate::store::backend::{Backend, Checking};
use crate::store::background;
use crate::store::options::Options;
use crate::store::source::Source;

impl Backend for Address {
    fn has_other_clients(&self) -> bool {
        true
    }

    fn connect(&self, options: Options) -> Connecting {
        let options = options.or_replicas(self.replicas);
        let address = self.clone().with_tls(&options.tls);
        Box::pin(async move { Ok(Box::new(ClusterStore::connect(address?, &options).await?) as _) })
    }

    fn check(&self, options: Options) -> Checking {
        let options = options.or_replicas(self.replicas);
        let address = self.clone().with_tls(&options.tls);
        background::check(async move { ClusterStore::check(address?, &options).await })
    }

    fn source(&self, options: Options) -> Result<Box<dyn Source>, LockError> {
        let address = self.clone().with_tls(&options.tls)?;
        Ok(Box::new(ClusterSource::new(address, &options)))
    }
}
