//! `redis-cluster://`: locks on real clusters, whose slots move and whose masters die.

use std::sync::LazyLock;
use std::time::Duration;

use leasehold::LockPool;
use leasehold_tests::cluster::{Cluster, Setup};

mod conforms;

const TTL: Duration = Duration::from_secs(6);
const LONG: Duration = Duration::from_secs(60);

/// One cluster of masters for all tests that leave it as it is; its leash ends it with the program.
static SHARED: LazyLock<Cluster> = LazyLock::new(|| Setup::new().start());

async fn connect(url: &str) -> LockPool {
    let pool = LockPool::connect(url).await;
    pool.unwrap_or_else(|error| panic!("{error}"))
}
