//! Which clients may speak to the server, and which can listen: TLS, and users with the fewest
//! permissions.

mod acl;
#[cfg(feature = "tls")]
mod sentinels;
#[cfg(feature = "tls")]
mod tls;

use std::time::Duration;

use leasehold::{LockError, LockPool};

const TTL: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(30);

/// Takes, renews and releases a lock.
async fn works(pool: &LockPool, key: &str) -> Result<(), LockError> {
    let guard = pool
        .lock(key)
        .ttl(Duration::from_millis(900))
        .watchdog()
        .acquire()
        .await?;
    let handle = guard.handle();
    let first = leasehold::__test::deadline(&handle);
    let renewed = async {
        while leasehold::__test::deadline(&handle) == first {
            handle.check()?;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    };
    leasehold_tests::wait::within("a renewal", PATIENCE, renewed).await?;
    guard.release().await
}
