//! The backend of `zookeeper://`.

use tokio::sync::mpsc::unbounded_channel;

use super::address::Address;
use super::check;
use super::look::ZooKeeperLook;
use super::service::ZooKeeper;
use crate::check_report::CheckReport;
use crate::error::LockError;
use crate::store::Connecting;
use crate::store::backend::{Backend, Checking};
use crate::store::background;
use crate::store::options::Options;
use crate::store::session::store::SessionStore;
use crate::store::session::{self, look::SessionSource};
use crate::store::source::Source;

impl ZooKeeper {
    /// Connects a store to the ensemble, and logs the findings of a check.
    async fn connect(address: Address, options: &Options) -> Result<SessionStore<Self>, LockError> {
        let (sender, events) = unbounded_channel();
        let reached = Self::reach(address, options, sender.clone()).await;
        let ensemble = reached.map_err(|failure| failure.error)?;
        // A failed check is ignored, because it has no report to log. The first call for a lock
        // will return the error.
        if let Ok(report) = check::examine(&ensemble, options).await {
            report.log();
        }
        Ok(SessionStore::new(ensemble, options, sender, events))
    }

    /// Checks the ensemble over dedicated connections.
    async fn check(address: Address, options: &Options) -> Result<CheckReport, LockError> {
        let (sender, _events) = unbounded_channel();
        let examined = async {
            let ensemble = Self::reach(address, options, sender).await?;
            check::examine(&ensemble, options).await
        };
        examined.await.map_err(|failure| failure.error)
    }
}

impl Address {
    /// Returns this address with the pool's source of credentials. Refuses options that
    /// `zookeeper://` does not support.
    fn with(self, options: &Options) -> Result<Self, LockError> {
        options.tls.refuse()?;
        options.refuse_replicas(
            "`replicas` is for Redis; a lock at `zookeeper://` is on most servers of the ensemble before it counts, so leave it out",
        )?;
        self.with_logins(options.logins.as_ref())
    }
}

impl Backend for Address {
    fn can_keep(&self) -> Result<(), LockError> {
        Err(LockError::config(
            "`cooldown` and `min_hold` are not supported by `zookeeper://`, where a lock ends with \
             a session of its process; use a pool with `etcd://`, `redis://` or `postgres://`",
        ))
    }

    fn can_hand_over(&self) -> Result<(), LockError> {
        Err(session::no_hand_over())
    }

    fn waits_for_holders(&self) -> bool {
        true
    }

    fn accepts(&self, options: &Options) -> Result<(), LockError> {
        self.clone().with(options).map(drop)
    }

    fn connect(&self, options: Options) -> Connecting {
        let address = self.clone();
        Box::pin(async move {
            let address = address.with(&options)?;
            Ok(Box::new(ZooKeeper::connect(address, &options).await?) as _)
        })
    }

    fn check(&self, options: Options) -> Checking {
        let address = self.clone();
        background::check(async move { ZooKeeper::check(address.with(&options)?, &options).await })
    }

    fn source(&self, options: Options) -> Result<Box<dyn Source>, LockError> {
        let look = ZooKeeperLook::new(self.clone().with(&options)?, &options);
        Ok(Box::new(SessionSource::new(look, &options)))
    }
}
