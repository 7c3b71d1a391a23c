//! More than one plain server: Sentinels, replicas, clusters, quorums, TLS and users. And
//! databases.

mod cluster;
mod etcd;
mod postgres;
mod redlock;
mod replicas;
mod sentinel;
mod session_servers;
mod tls_and_acl;
mod zookeeper;

#[cfg(feature = "tls")]
use leasehold::{LockError, LockPool};

/// Connecting fails: the code and the text.
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
