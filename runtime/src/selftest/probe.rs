//! Access to the internals of the crate for this repository's own tests.

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
use super::null_store::Nothing;
#[cfg(debug_assertions)]
use super::seeded_bugs::Bug;
use super::{conformance, interleave};
use crate::base::clock::Clock;
use crate::base::reporter;
use crate::engine::driver::command::Command;
use crate::lock::call::guard::LockHandle;
use crate::pool::LockPool;
use crate::store::LockStore;
use crate::store::backend::Target;
use crate::store::options::Options;

/// Runs the conformance suite of lock stores against the store at `url`.
///
/// # Panics
///
/// If the store cannot be reached or does not conform.
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

/// Runs the further tests for stores with a queue of processes.
///
/// # Panics
///
/// If the store cannot be reached or does not conform.
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

/// Requests both `keys` after `moves` has moved the second key to another node. The store still
/// expects both keys on one node, so this node redirects the second request.
///
/// # Panics
///
/// If the store cannot be reached, or a redirect is not followed before the client polls again.
pub async fn sent_on(url: &str, keys: [&str; 2], moves: impl FnOnce()) {
    let (one, two) = (open(url).await, open(url).await);
    moves();
    conformance::sent_on(one, two, keys).await;
}

/// Connects to the nodes and calls `met`, in which the test can suspend a node. Then requests
/// `key`: one node must grant the lock, and the others must refuse it. `given_back` of the suite
/// explains `given` and `decides`.
///
/// # Panics
///
/// If the nodes cannot be reached, or the lock is not released before the client polls again.
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

/// Lets a request that creates a node (a key in a lock's queue) reach the cluster at `url` only
/// after the node's removal.
///
/// # Panics
///
/// If the late request creates the node, or the cluster does not answer.
#[cfg(feature = "etcd")]
pub async fn etcd_seals(url: &str) {
    use crate::store::etcd;

    let options = Options::new(Duration::from_secs(5));
    let address = etcd::address::Address::parse(url).expect("the URL of a cluster");
    etcd::service::Etcd::seals(address, &options).await;
}

/// Sends a transaction with an outdated epoch to the cluster at `url`. Gives up the request in this
/// transaction before the transaction fails.
///
/// # Panics
///
/// If the request is sent again, or the cluster does not answer.
#[cfg(feature = "etcd")]
pub async fn etcd_gives_up(url: &str) {
    use crate::store::etcd;

    let options = Options::new(Duration::from_secs(5));
    let address = etcd::address::Address::parse(url).expect("the URL of a cluster");
    etcd::service::Etcd::gives_up(address, &options).await;
}

/// Waits for the removal of a key that does not exist in the cluster at `url`.
///
/// # Panics
///
/// If the wait does not end at once, or the cluster does not answer.
#[cfg(feature = "etcd")]
pub async fn etcd_sees_the_gone(url: &str) {
    use crate::store::etcd;

    let options = Options::new(Duration::from_secs(5));
    let address = etcd::address::Address::parse(url).expect("the URL of a cluster");
    etcd::service::Etcd::sees_the_gone(address, &options).await;
}

/// Takes three shares, calls `spoiled`, and renews the shares. `spoiled` must make the store refuse
/// to renew the share of `key`.
///
/// # Panics
///
/// If the store cannot be reached, or does not report that it renewed the other shares.
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
/// If the store cannot be reached.
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

/// Returns a pool on a store that does nothing: it grants each lock to any number of calls.
///
/// # Panics
///
/// If the engine's thread does not start.
pub async fn pool_of_nothing() -> LockPool {
    let connecting = LockPool::builder().connect_to(Target::new(Nothing));
    // This repository's benchmarks cannot continue without the pool.
    connecting.await.expect("nothing is connected to")
}

/// Waits until all events that the engines have reported so far are logged and counted. Also works
/// in async code.
///
/// # Panics
///
/// If the process cannot start another thread.
pub fn reports_delivered() {
    let delivered = std::thread::spawn(|| reporter::delivered().blocking_recv());
    // Without a reporter thread there is nothing to wait for.
    let _ = delivered.join().expect("a thread that waits");
}

/// Runs `code` as a command of the engine of `pool`, under the engine's mutex. A panic of `code`
/// stops the engine.
///
/// # Panics
///
/// If the engine has already stopped.
pub fn inside_engine(pool: &LockPool, code: impl FnOnce() + Send + 'static) {
    let sent = pool.engine().send(Command::Inside(Box::new(code)));
    sent.expect("the engine runs");
}

/// Returns the names of the bugs that `LEASEHOLD_SEEDED_BUG` can switch on.
#[cfg(debug_assertions)]
pub fn bugs() -> Vec<String> {
    Bug::ALL.iter().map(|bug| format!("{bug:?}")).collect()
}

/// Returns the end of the lease as last confirmed by the store, in nanoseconds on the clock of
/// [`now`]. Returns 0 while the handle holds no lease.
pub fn deadline(handle: &LockHandle) -> u64 {
    handle.deadline().as_nanos()
}

/// Like `deadline`, but keeps the value after the end of the lease.
pub fn confirmed(handle: &LockHandle) -> u64 {
    handle.confirmed().as_nanos()
}

/// Like `confirmed`, but for one of the keys.
pub fn confirmed_of(handle: &LockHandle, key: &str) -> u64 {
    handle.confirmed_of(key).as_nanos()
}

/// Returns the time on the clock of the leases, in nanoseconds.
pub fn now() -> u64 {
    Clock::System.now().as_nanos()
}

/// True if a ZooKeeper session outlives a failed attempt to resume it.
#[cfg(feature = "zookeeper")]
pub async fn zookeeper_sessions_outlive_attempts(server: &str) -> bool {
    crate::store::zookeeper::line::survives_a_failed_attempt(server).await
}

/// Returns the commands that a Redis user must be allowed, and the whole ACL rule for the namespace
/// `lock`.
#[cfg(feature = "redis")]
pub fn permissions() -> (&'static [&'static str], String) {
    use crate::store::redis::acl;

    (acl::COMMANDS, acl::rule())
}

/// Returns the whole ACL rule for the namespace `lock` on the nodes of a cluster.
#[cfg(feature = "redis")]
pub fn permissions_in_cluster() -> String {
    use crate::store::redis::acl;

    format!("{} {}", acl::rule(), acl::FOR_CLUSTER)
}

/// Returns the key's text, if this crate accepts the key.
pub fn finished(key: crate::key::Key) -> Option<String> {
    key.finish().ok()
}
