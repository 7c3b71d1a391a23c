//! The holder of an order's lock, as reported by the store. The page shows the holder in a strip.

use leasehold::{Fence, LockError, LockPool};
use serde::Serialize;

use super::services::Services;

/// The holder, as shown in the strip.
#[derive(Debug, Serialize)]
pub(crate) struct Holder {
    pub(crate) key: String,
    /// Name of the service, if the services are separate processes.
    pub(crate) service: Option<&'static str>,
    /// Function, machine and process.
    pub(crate) owner: String,
    pub(crate) fence: Option<i64>,
    pub(crate) expires_in_ms: Option<u128>,
}

/// Returns the holder of the lock `key`. A killed process remains its holder until the lease ends.
pub(crate) async fn of(
    locks: &LockPool,
    services: &Services,
    key: &str,
) -> Result<Option<Holder>, LockError> {
    let lock = locks.inspect(key).await?;
    let holder = lock.holders.into_iter().next();
    Ok(holder.map(|holder| {
        let owner = holder.owner.as_ref();
        Holder {
            key: key.to_owned(),
            service: owner.and_then(|owner| services.of_process(owner.pid)),
            owner: owner.map(ToString::to_string).unwrap_or_default(),
            fence: holder.fence.map(Fence::as_i64),
            expires_in_ms: holder.expires_in.map(|left| left.as_millis()),
        }
    }))
}
