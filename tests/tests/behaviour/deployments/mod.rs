//! Tests of deployments other than one plain server: Sentinels, replicas, clusters, quorums, TLS,
//! users and databases.

mod cluster;
mod etcd;
#[cfg(feature = "tls")]
mod given_tls;
mod postgres;
mod redlock;
mod replicas;
mod sentinel;
mod session_servers;
mod tls_and_acl;
mod zookeeper;

use std::time::Duration;

use futures_util::future::join_all;
use leasehold::LockGuard;
#[cfg(feature = "tls")]
use leasehold::{LockError, LockPool};
use leasehold_tests::wait;

/// Waits until each of these locks is renewed again. Fails if one of the locks is lost.
async fn all_are_renewed(guards: &[LockGuard]) {
    let renewed = guards.iter().map(|guard| {
        let handle = guard.handle();
        let first = leasehold::__test::deadline(&handle);
        async move {
            while leasehold::__test::deadline(&handle) == first {
                handle.check().unwrap_or_else(|error| panic!("{error}"));
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    });
    wait::within("the renewals", Duration::from_secs(30), join_all(renewed)).await;
}

/// Returns the code and the text of the error. Fails if connecting succeeds.
#[cfg(feature = "tls")]
async fn refused(
    connecting: impl Future<Output = Result<LockPool, LockError>>,
) -> (String, String) {
    match connecting.await {
        Ok(pool) => panic!("connected: {pool:?}"),
        Err(LockError::Unavailable { source }) => (source.code().to_owned(), source.to_string()),
        Err(error) => ("Config".to_owned(), error.to_string()),
    }
}
