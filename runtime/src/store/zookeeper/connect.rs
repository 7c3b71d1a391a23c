//! Connects a store to an ensemble, and looks for what is wrong with it.

use tokio::sync::mpsc::unbounded_channel;

use super::address::Address;
use super::check;
use super::service::ZooKeeper;
use crate::check_report::CheckReport;
use crate::error::LockError;
use crate::store::options::Options;
use crate::store::session::store::SessionStore;

impl ZooKeeper {
    /// Connects a store.
    pub(crate) async fn connect(
        address: Address,
        options: &Options,
    ) -> Result<SessionStore<Self>, LockError> {
        let (sender, events) = unbounded_channel();
        let reached = Self::reach(address, options, sender.clone()).await;
        let ensemble = reached.map_err(|failure| failure.error)?;
        // Without an answer there is nothing to log: the first call will report it.
        if let Ok(report) = check::examine(&ensemble, options).await {
            report.log();
        }
        Ok(SessionStore::new(ensemble, options, sender, events))
    }

    /// Looks at the ensemble over connections of its own.
    pub(crate) async fn check(
        address: Address,
        options: &Options,
    ) -> Result<CheckReport, LockError> {
        let (sender, _events) = unbounded_channel();
        let examined = async {
            let ensemble = Self::reach(address, options, sender).await?;
            check::examine(&ensemble, options).await
        };
        examined.await.map_err(|failure| failure.error)
    }
}
