//! What this repository's own tests need from inside the crate.

use std::time::Duration;

use super::conformance::Promises;
#[cfg(all(
    feature = "redis",
    feature = "postgres",
    feature = "etcd",
    feature = "zookeeper",
    feature = "replay"
))]
pub use super::foreign;
pub use super::interleave::Counts;
#[cfg(debug_assertions)]
use super::seeded_bugs::Bug;
use super::{conformance, interleave};
use crate::base::clock::Clock;
use crate::base::reporter;
use crate::engine::driver::command::Command;
use crate::lock::guard::LockHandle;
use crate::pool::LockPool;
use crate::store::LockStore;
use crate::store::options::Options;
use crate::store::target::Target;

/// Runs the conformance suite of lock stores against the store at `url`.
///
/// # Panics
///
/// Where the store cannot be reached or does not conform.
pub async fn conformance(url: &str) {
    let one = open(url).await;
    let two = open(url).await;
    let mut stores = vec![one, two];
    conformance::run(promises(url), || {
        stores.pop().expect("the suite asks for two")
    })
    .await;
}

fn promises(url: &str) -> Promises {
    match url.split("://").next() {
        Some("redlock") => Promises::QUORUM,
        #[cfg(feature = "__session")]
        Some("etcd") => Promises::SESSIONS,
        #[cfg(feature = "zookeeper")]
        Some("zookeeper") => Promises::ONLY_SESSIONS,
        #[cfg(feature = "postgres")]
        Some("postgres") => Promises::COMMITS,
        _ => Promises::ONE,
    }
}

/// Runs the further scenes for stores that have a queue of processes.
///
/// # Panics
///
/// As `conformance`.
pub async fn conformance_of_queues(url: &str) {
    let mut stores = Vec::new();
    for _ in 0..3 {
        stores.push(open(url).await);
    }
    conformance::run_queue(promises(url), move || {
        stores.pop().expect("the suite asks for three")
    })
    .await;
}

/// Asks for both `keys`, of which the store knows one node. `moves` moves the second to another.
///
/// # Panics
///
/// Where the store cannot be reached, or a redirected request is not sent on before the next poll.
pub async fn sent_on(url: &str, keys: [&str; 2], moves: impl FnOnce()) {
    let (one, two) = (open(url).await, open(url).await);
    moves();
    conformance::sent_on(one, two, keys).await;
}

/// Asks nodes for `key` after `met`. One node gives it, and the other nodes do not. See
/// `given_back` of the suite.
///
/// # Panics
///
/// Where the nodes cannot be reached, or the lock is not given back before the next poll.
pub async fn given_back(
    url: &str,
    key: &str,
    met: impl FnOnce(),
    given: impl Fn() -> bool,
    decides: impl FnOnce(),
) {
    let store = open(url).await;
    met();
    conformance::given_back(store, key, given, decides).await;
}

/// A request to the cluster at `url` that makes a node arrives after the node was removed.
///
/// # Panics
///
/// Where the request makes the node, or the cluster does not answer.
#[cfg(feature = "etcd")]
pub async fn etcd_seals(url: &str) {
    use crate::store::etcd;

    let options = Options::new(Duration::from_secs(5));
    let address = etcd::address::Address::parse(url).expect("the URL of a cluster");
    etcd::service::Etcd::seals(address, &options).await;
}

/// A request to the cluster at `url` is given up, and its transaction answered by another epoch.
///
/// # Panics
///
/// Where the request is sent again, or the cluster does not answer.
#[cfg(feature = "etcd")]
pub async fn etcd_gives_up(url: &str) {
    use crate::store::etcd;

    let options = Options::new(Duration::from_secs(5));
    let address = etcd::address::Address::parse(url).expect("the URL of a cluster");
    etcd::service::Etcd::gives_up(address, &options).await;
}

/// The cluster at `url` is asked to tell the end of a key that is not there.
///
/// # Panics
///
/// Where the answer does not come at once, or the cluster does not answer.
#[cfg(feature = "etcd")]
pub async fn etcd_sees_the_gone(url: &str) {
    use crate::store::etcd;

    let options = Options::new(Duration::from_secs(5));
    let address = etcd::address::Address::parse(url).expect("the URL of a cluster");
    etcd::service::Etcd::sees_the_gone(address, &options).await;
}

/// Renews three shares. The store refuses that of `key` once `spoiled` has been called.
///
/// # Panics
///
/// Where the store cannot be reached, or does not say that it renewed the other shares.
#[cfg(feature = "redis")]
pub async fn one_share_is_refused(url: &str, key: &str, spoiled: impl FnOnce()) {
    conformance::one_share_is_refused(open(url).await, key, spoiled).await;
}

/// Sends random requests of many clients to the store at `url` and compares the answers with a
/// model.
///
/// # Errors
///
/// The first difference.
///
/// # Panics
///
/// Where the store cannot be reached.
pub async fn interleave(url: &str, seed: u64, requests: u64) -> Result<Counts, String> {
    interleave::run(open(url).await, seed, requests).await
}

async fn open(url: &str) -> Box<dyn LockStore> {
    let options = Options::new(Duration::from_secs(5));
    let connecting = Target::parse(url).map(|target| target.connect(options));
    match connecting {
        Ok(connecting) => connecting.await.expect("the store connects"),
        Err(error) => panic!("{error}"),
    }
}

/// A pool on a store that does nothing: its locks exclude no call.
///
/// # Panics
///
/// Where the engine's thread does not start.
pub async fn pool_of_nothing() -> LockPool {
    let connecting = LockPool::builder().connect_to(Target::Nothing);
    // This repository's benchmarks use this, and cannot go on without it.
    connecting.await.expect("nothing is connected to")
}

/// Returns when everything that the engines have reported has been logged and counted. Works in
/// async code too.
///
/// # Panics
///
/// Where the process cannot start a further thread.
pub fn reports_told() {
    let told = std::thread::spawn(|| reporter::told().blocking_recv());
    // Without a reporter thread there is nothing to wait for.
    let _ = told.join().expect("a thread that waits");
}

/// Runs `code` on the thread that executes the command, under the mutex of the engine of `pool`. A
/// panic of `code` stops the engine.
///
/// # Panics
///
/// Where the engine has stopped before.
pub fn inside_engine(pool: &LockPool, code: impl FnOnce() + Send + 'static) {
    let sent = pool.engine().send(Command::Inside(Box::new(code)));
    sent.expect("the engine runs");
}

/// The names of the bugs that `LEASEHOLD_SEEDED_BUG` can switch on.
#[cfg(debug_assertions)]
pub fn bugs() -> Vec<String> {
    Bug::ALL.iter().map(|bug| format!("{bug:?}")).collect()
}

/// The end of the lease as the store confirmed it last, in nanoseconds on the clock of [`now`]; 0
/// while the handle holds no lease.
pub fn deadline(handle: &LockHandle) -> u64 {
    handle.deadline().as_nanos()
}

/// The end of the lease as the store confirmed it last, also when the lease is over.
pub fn confirmed(handle: &LockHandle) -> u64 {
    handle.confirmed().as_nanos()
}

/// The end of the lease on one of the keys as the store confirmed it last, also when the lease is
/// over.
pub fn confirmed_of(handle: &LockHandle, key: &str) -> u64 {
    handle.confirmed_of(key).as_nanos()
}

/// The time on the clock of the leases, in nanoseconds.
pub fn now() -> u64 {
    Clock::System.now().as_nanos()
}

/// The commands that a Redis user must be allowed, and the whole ACL rule for the namespace `lock`.
#[cfg(feature = "redis")]
pub fn permissions() -> (&'static [&'static str], String) {
    use crate::store::redis::acl;

    (acl::COMMANDS, acl::rule())
}

/// The whole ACL rule for the namespace `lock` on the nodes of a cluster.
#[cfg(feature = "redis")]
pub fn permissions_in_cluster() -> String {
    use crate::store::redis::acl;

    format!("{} {}", acl::rule(), acl::FOR_CLUSTER)
}

/// The finished key, if the runtime takes it.
pub fn finished(key: crate::key::Key) -> Option<String> {
    key.finish().ok()
}
