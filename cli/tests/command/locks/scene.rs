//! Locks of each kind on one server: held by this process, kept after a release, or set by a client
//! without leasehold.

use std::time::Duration;

use leasehold::{LockGuard, LockPool};
use leasehold_tests::holder::Holder;
use leasehold_tests::server::Server;
use leasehold_tests::wait;
use redis::cmd;
use tokio::task::JoinHandle;

use crate::harness::LONG;

/// Ttl of the locks: longer than a test takes, so that no lease ends.
const TTL: Duration = Duration::from_secs(600);

/// One lock of each kind, and a call that waits for the exclusive lock.
pub(super) struct Scene {
    pub(super) server: Server,
    pub(super) pool: LockPool,
    /// The holder of the exclusive lock `order-42`, an annotated function.
    pub(super) exclusive: Holder,
    _shares: [LockGuard; 2],
    _permit: LockGuard,
    waiting: JoinHandle<()>,
}

impl Scene {
    pub(super) async fn begin() -> Self {
        let server = Server::start();
        let pool = wait::connected(LockPool::builder().url(server.url())).await;
        let on = |key: &str| pool.lock(key).ttl(TTL);
        let exclusive = Holder::enter(&pool, "order-42").await;
        let share = || on("catalog").shared().acquire();
        let shares = [share().await.expect("free"), share().await.expect("free")];
        let permit = on("partner").permits(3).acquire().await.expect("free");
        let kept = on("payment:7").acquire().await.expect("free");
        let released = kept.release_after(Duration::from_secs(3_600)).await;
        released.expect("it was held");
        let _: String = server
            .probe()
            .run(cmd("SET").arg("lock:foreign").arg("a script"));
        let other = wait::connected(LockPool::builder().url(server.url())).await;
        let waiting = tokio::spawn(async move {
            let patient = other.lock("order-42").ttl(TTL).wait(TTL);
            let _ = patient.acquire().await;
        });
        wait::within("a call queues", LONG, async {
            let look = async || pool.inspect("order-42").await.expect("the server answers");
            while look().await.waiting.is_empty() {}
        })
        .await;
        Self {
            server,
            pool,
            exclusive,
            _shares: shares,
            _permit: permit,
            waiting,
        }
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.waiting.abort();
    }
}
