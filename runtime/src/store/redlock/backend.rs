//! The backend for `redlock://`.

use super::address::Address;
use super::look::RedlockSource;
use super::store::RedlockStore;
use crate::error::LockError;
use crate::store::Connecting;
use crate::store::backend::{Backend, Checking};
use crate::store::background;
use crate::store::options::Options;
use crate::store::source::Source;

/// Fails if the options have certificates or `replicas`, which `redlock://` does not support.
fn refuse(options: &Options) -> Result<(), LockError> {
    options.tls.refuse()?;
    options.refuse_replicas(
        "the nodes of `redlock://` are independent, so `replicas` makes no sense there; leave it out",
    )
}

impl Address {
    /// Applies the pool's source of credentials to each node. Refuses options that `redlock://`
    /// does not support.
    fn with(mut self, options: &Options) -> Result<Self, LockError> {
        refuse(options)?;
        let nodes = self.nodes.into_iter();
        self.nodes = nodes
            .map(|node| node.with_logins(options.logins.as_ref()))
            .collect();
        Ok(self)
    }
}

impl Backend for Address {
    fn can_hand_over(&self) -> Result<(), LockError> {
        Err(LockError::config(
            "a lock of `redlock://` cannot be handed over, because each node would have to change its token in the same step; use a \
             pool with `redis://` or `postgres://`",
        ))
    }

    fn has_other_clients(&self) -> bool {
        true
    }

    fn accepts(&self, options: &Options) -> Result<(), LockError> {
        self.clone().with(options).map(drop)
    }

    fn connect(&self, options: Options) -> Connecting {
        let address = self.clone();
        Box::pin(async move {
            let address = address.with(&options)?;
            Ok(Box::new(RedlockStore::connect(address, &options).await?) as _)
        })
    }

    fn check(&self, options: Options) -> Checking {
        let address = self.clone();
        background::check(async move {
            let address = address.with(&options)?;
            RedlockStore::check(address, &options).await
        })
    }

    fn source(&self, options: Options) -> Result<Box<dyn Source>, LockError> {
        let address = self.clone().with(&options)?;
        Ok(Box::new(RedlockSource::new(address, &options)))
    }
}
