//! The backend of `etcd://`.

use tokio::sync::mpsc::unbounded_channel;

use super::address::Address;
use super::check;
use super::look::EtcdLook;
use super::service::Etcd;
use crate::check_report::CheckReport;
use crate::error::LockError;
use crate::store::Connecting;
use crate::store::backend::{Backend, Checking};
use crate::store::background;
use crate::store::options::Options;
use crate::store::session::store::SessionStore;
use crate::store::session::{self, look::SessionSource};
use crate::store::source::Source;

impl Etcd {
    /// Connects a store, and logs the findings of a check of the cluster.
    async fn connect(address: Address, options: &Options) -> Result<SessionStore<Self>, LockError> {
        let (sender, events) = unbounded_channel();
        let etcd = Self::new(address, options, sender.clone());
        etcd.client
            .connection()
            .await
            .map_err(|failure| failure.error)?;
        // If the check itself fails, nothing is logged: the first call will report the cause.
        if let Ok(report) = check::examine(&etcd, options).await {
            report.log();
        }
        Ok(SessionStore::new(etcd, options, sender, events))
    }

    /// Checks the cluster over dedicated connections.
    async fn check(address: Address, options: &Options) -> Result<CheckReport, LockError> {
        let (sender, _events) = unbounded_channel();
        let etcd = Self::new(address, options, sender);
        let examined = check::examine(&etcd, options).await;
        examined.map_err(|failure| failure.error)
    }
}

impl Address {
    /// Returns this address with the pool's certificates and credentials. Refuses `replicas`, which
    /// is an option for Redis.
    fn with(self, options: &Options) -> Result<Self, LockError> {
        options.refuse_replicas(
            "`replicas` is for Redis; a lock at `etcd://` is on most members of the cluster before it counts, so leave it out",
        )?;
        self.with_tls(&options.tls)?
            .with_logins(options.logins.as_ref())
    }
}

impl Backend for Address {
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
            Ok(Box::new(Etcd::connect(address, &options).await?) as _)
        })
    }

    fn check(&self, options: Options) -> Checking {
        let address = self.clone();
        background::check(async move { Etcd::check(address.with(&options)?, &options).await })
    }

    fn source(&self, options: Options) -> Result<Box<dyn Source>, LockError> {
        let look = EtcdLook::new(self.clone().with(&options)?, &options);
        Ok(Box::new(SessionSource::new(look, &options)))
    }
}
