//! Connects a store to a cluster, and looks for what is wrong with it.

use tokio::sync::mpsc::unbounded_channel;

use super::address::Address;
use super::check;
use super::service::Etcd;
use crate::check_report::CheckReport;
use crate::error::LockError;
use crate::store::options::Options;
use crate::store::session::store::SessionStore;

impl Etcd {
    /// Connects a store.
    pub(crate) async fn connect(
        address: Address,
        options: &Options,
    ) -> Result<SessionStore<Self>, LockError> {
        let (sender, events) = unbounded_channel();
        let etcd = Self::new(address, options, sender.clone());
        etcd.client
            .connection()
            .await
            .map_err(|failure| failure.error)?;
        // Without an answer there is nothing to log: the first call will report it.
        if let Ok(report) = check::examine(&etcd, options).await {
            report.log();
        }
        Ok(SessionStore::new(etcd, options, sender, events))
    }

    /// Looks at the cluster over connections of its own.
    pub(crate) async fn check(
        address: Address,
        options: &Options,
    ) -> Result<CheckReport, LockError> {
        let (sender, _events) = unbounded_channel();
        let etcd = Self::new(address, options, sender);
        let examined = check::examine(&etcd, options).await;
        examined.map_err(|failure| failure.error)
    }
}
