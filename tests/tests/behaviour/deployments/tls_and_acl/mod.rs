//! Tests of protection from eavesdroppers (with TLS), and from other clients of the same server
//! (with users of few permissions).

mod acl;
mod neighbours;
mod odd_keys;
#[cfg(feature = "tls")]
mod sentinels;
#[cfg(feature = "tls")]
mod tls;

use std::time::Duration;

use leasehold::{LockError, LockPool};
use leasehold_tests::server::Server;
use leasehold_tests::wait;
use redis::cmd;

/// The ttl of most locks. It is longer than any step of a test takes, even on a busy machine.
const TTL: Duration = Duration::from_secs(20);
const PATIENCE: Duration = Duration::from_secs(30);

/// Time limit for an answer. It is long, because a busy machine may delay each thread that handles
/// a call by up to two seconds.
const IO_TIMEOUT: Duration = Duration::from_secs(10);

/// Creates a user whose password is its name, and returns its URL.
fn user(server: &Server, name: &str, rules: &[&str]) -> String {
    let mut acl = cmd("ACL");
    acl.arg("SETUSER").arg(name).arg("reset").arg("on");
    acl.arg(format!(">{name}")).arg(rules);
    server.probe().run::<()>(&acl);
    format!("redis://{name}:{name}@127.0.0.1:{}/", server.port())
}

async fn connect(url: &str) -> LockPool {
    wait::connected(LockPool::builder().url(url).io_timeout(IO_TIMEOUT)).await
}

/// Takes, renews and releases a lock.
async fn works(pool: &LockPool, key: &str) -> Result<(), LockError> {
    let guard = pool
        .lock(key)
        .ttl(Duration::from_secs(4))
        .watchdog_every(Duration::from_millis(200))
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
    wait::within("a renewal", PATIENCE, renewed).await?;
    guard.release().await
}
