//! Installed pools.
use crate::{LockError, ShutdownReport};
use std::time::Duration;
/// Connects and installs.
pub async fn init(_url: &str) -> Result<(), LockError> {
    unimplemented!()
}
/// Connects and installs from `LEASEHOLD_URL`, `LEASEHOLD_NAMESPACE`, `LEASEHOLD_WAIT`.
pub async fn init_from_env() -> Result<(), LockError> {
    unimplemented!()
}
/// Shuts the installed pools down.
pub async fn shutdown(_limit: Duration) -> ShutdownReport {
    unimplemented!()
}
