//! Tests in which locks that belong to sessions are taken away. The holders are slow or dead, or do
//! not use this library.

use std::time::{Duration, Instant};

use leasehold::{LockPool, LockState};
use leasehold_tests::etcd::Etcd;
use leasehold_tests::lateness::Excuse;
use leasehold_tests::pipe::{Flow, Pipe};
use leasehold_tests::random::Random;
use leasehold_tests::session_server::{SessionProbe, SessionServer};
use leasehold_tests::stores::{NO_OUTAGE, Store};
use leasehold_tests::worker::{Job, Scenario, Worker};
use leasehold_tests::zookeeper::{Settings, Zookeeper};
use leasehold_tests::{on_etcd, on_zookeeper, wait};

use super::{LONG, TTL, is_here, seen};

/// Time for which a revoked lock stays locked if its holder does not release it ("the grace").
const GRACE: Duration = Duration::from_secs(3);

/// Ttl for tests on a cluster. It is short, because the ZooKeeper clusters of the tests limit
/// sessions to ten seconds.
const SHORT: Duration = Duration::from_secs(5);

/// The `io_timeout` of an operator that gets no answers.
const HASTY: Duration = Duration::from_secs(2);

async fn connect(url: &str) -> LockPool {
    let pool = LockPool::builder().url(url).io_timeout(NO_OUTAGE);
    wait::connected(pool).await
}

/// True if the grace of a lock taken away at `since` is nearly over. The lock may then be free
/// although its holder has not left yet.
fn is_over(since: Instant) -> bool {
    GRACE * 9 / 10 < since.elapsed()
}

on_etcd!(
    a_revoked_guard_keeps_the_lock_for_the_grace,
    two_concurrent_revocations_take_one_lock,
    two_locks_of_one_process_are_revoked_separately,
    a_pool_answers_while_it_waits_for_a_revoked_holder,
    a_lock_of_another_client_is_shown_and_revoked,
);

on_zookeeper!(
    a_revoked_guard_keeps_the_lock_for_the_grace,
    two_concurrent_revocations_take_one_lock,
    two_locks_of_one_process_are_revoked_separately,
    a_pool_answers_while_it_waits_for_a_revoked_holder,
    a_lock_of_another_client_is_shown_and_revoked,
);

/// Takes a lock away. Fails if that takes more or less time than the grace.
async fn takes_the_grace(pool: &LockPool, key: &str) {
    let (started, excuse) = (Instant::now(), Excuse::begin());
    let was = pool.force_release(key).await.expect("it answers");
    assert!(was.is_some());
    let took = started.elapsed();
    let most = GRACE + Duration::from_secs(2) + excuse.so_far();
    assert!(GRACE * 9 / 10 < took && took < most, "{took:?}");
}

/// Fails if a revoked guard that is not dropped keeps its lock for less time than the grace, or for
/// the rest of its lease.
async fn a_revoked_guard_keeps_the_lock_for_the_grace(store: &Store) {
    let (pool, next) = (store.pool().await, store.pool().await);
    let guard = pool.lock("g").ttl(TTL).acquire().await.expect("free");
    let started = Instant::now();
    let notified = async {
        guard.lost().await;
        match next.lock("g").ttl(TTL).acquire().await {
            Ok(taken) => {
                assert!(is_over(started), "it is taken");
                taken.release().await.expect("held");
            }
            Err(error) => assert!(error.is_contention(), "{error}"),
        }
    };
    tokio::join!(takes_the_grace(&next, "g"), notified);
    let taken = next.lock("g").ttl(TTL).acquire().await.expect("free");
    let error = guard.release().await.expect_err("it was lost");
    assert!(error.is_lost(), "{error}");
    taken.release().await.expect("still held");
}

/// An operator takes away the lock of a killed process, whose session has not ended yet. Fails if
/// the lock is not free after the grace.
async fn a_dead_holder_s_lock_comes_free<S: SessionServer>() {
    let url = S::shared().url("dead");
    let job = Job {
        url: url.clone(),
        key: "dead".to_owned(),
        ttl_ms: 15_000,
        wait_ms: 0,
        watchdog: true,
        scenario: Scenario::Hold,
    };
    let mut holder = Worker::spawn(env!("CARGO_BIN_EXE_worker"), &job);
    holder.wait_entered(LONG);
    holder.process().kill();
    let operator = connect(&url).await;
    takes_the_grace(&operator, "dead").await;
    let guard = operator.lock("dead").ttl(TTL).acquire().await;
    guard.expect("it is free").release().await.expect("held");
}

#[tokio::test]
async fn a_lock_of_a_dead_holder_is_freed_on_etcd() {
    a_dead_holder_s_lock_comes_free::<Etcd>().await;
}

#[tokio::test]
async fn a_lock_of_a_dead_holder_is_freed_on_zookeeper() {
    a_dead_holder_s_lock_comes_free::<Zookeeper>().await;
}

/// A revocation is a key or znode that notifies a session. Fails if one stays on the server after
/// the holder has released the lock, or after the grace.
async fn a_revocation_leaves_nothing<S: SessionServer>() {
    let (url, probe) = (S::shared().url("told"), S::shared().probe("told", "lock:"));
    let (holder, operator) = (connect(&url).await, connect(&url).await);
    let guard = holder.lock("k").ttl(TTL).acquire().await.expect("free");
    let started = Instant::now();
    let notified = async {
        guard.lost().await;
        let notified_by = probe.revocations().len();
        assert!(
            notified_by == 1 || is_over(started),
            "the holder was notified by it"
        );
        drop(guard);
    };
    let (was, ()) = tokio::join!(operator.force_release("k"), notified);
    assert!(was.expect("it answers").is_some());
    assert_eq!(
        probe.revocations(),
        [""; 0],
        "the holder gave the lock back"
    );
    let guard = holder.lock("k").ttl(TTL).acquire().await.expect("free");
    takes_the_grace(&operator, "k").await;
    assert_eq!(probe.revocations(), [""; 0], "the holder went on");
    drop(guard);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revocation_leaves_nothing_on_etcd() {
    a_revocation_leaves_nothing::<Etcd>().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revocation_leaves_nothing_on_zookeeper() {
    a_revocation_leaves_nothing::<Zookeeper>().await;
}

/// Fails if the slower of two calls of `force_release` takes the lock away from the next holder.
async fn two_concurrent_revocations_take_one_lock(store: &Store) {
    let (pool, one, two) = (store.pool().await, store.pool().await, store.pool().await);
    let guard = pool.lock("t").ttl(TTL).acquire().await.expect("free");
    let next = tokio::spawn(one.lock("t").ttl(TTL).wait(LONG).acquire());
    seen(&two, "t", |lock| lock.waiting.len() == 1).await;
    let both = tokio::join!(takes_the_grace(&one, "t"), two.force_release("t"));
    let was = both.1.expect("it answers").expect("it was taken");
    assert_eq!(was.state, LockState::Exclusive);
    let next = next.await.expect("no panic").expect("its turn comes");
    drop(guard);
    let lock = two.inspect("t").await.expect("it answers");
    assert_eq!(lock.fence, next.fence());
    next.release().await.expect("it is still held");
}

/// An operator gets no answers from the moment at which the holder is notified. Fails if the
/// operator repeats its requests so that the next holder loses the lock.
async fn a_lost_answer_changes_nothing<S: SessionServer>() {
    let (server, prefix) = (S::shared(), "unanswered");
    let pipe = Pipe::start(server.address());
    let url = server.url(prefix);
    let (holder, next) = (connect(&url).await, connect(&url).await);
    let over_the_pipe = S::url_of_all([pipe.address()], prefix);
    let hasty = LockPool::builder().url(over_the_pipe).io_timeout(HASTY);
    let operator = wait::connected(hasty).await;
    let guard = holder.lock("k").ttl(TTL).watchdog().acquire().await;
    let guard = guard.expect("free");
    let request = next.lock("k").ttl(TTL).watchdog().wait(LONG);
    let waiting = tokio::spawn(request.acquire());
    seen(&holder, "k", |lock| lock.waiting.len() == 1).await;
    // The pool keeps the connection of this question, and uses it for the next one, too.
    while operator.inspect("k").await.is_err() {}
    let notified = async {
        wait::within("the revocation", LONG, guard.lost()).await;
        pipe.set(Flow::LoseAnswers);
        drop(guard);
    };
    let (was, ()) = tokio::join!(operator.force_release("k"), notified);
    assert!(was.is_err(), "{was:?}");
    let next = waiting.await.expect("no panic").expect("its turn comes");
    let lost = tokio::time::timeout(GRACE / 2, next.lost()).await;
    assert!(lost.is_err(), "the next holder was notified");
    let lock = holder.inspect("k").await.expect("it answers");
    assert_eq!(lock.fence, next.fence());
    next.release().await.expect("it is still held");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_changes_nothing_on_etcd() {
    a_lost_answer_changes_nothing::<Etcd>().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_changes_nothing_on_zookeeper() {
    a_lost_answer_changes_nothing::<Zookeeper>().await;
}

/// The requests of an operator that arrive late.
#[derive(Debug, Clone, Copy)]
enum Late {
    /// All requests after the notification of the holder.
    All,
    /// The request that removes the holder's node.
    Removal,
}

/// Holds the requests of an operator back until the holder has taken the lock again. On etcd, the
/// holder's new node has the path of its first one. Fails if a late request removes the new node.
async fn a_late_request_changes_nothing<S: SessionServer>(late: Late, prefix: &str) {
    let server = S::shared();
    let pipe = Pipe::start(server.address());
    let holder = connect(&server.url(prefix)).await;
    let operator = connect(&S::url_of_all([pipe.address()], prefix)).await;
    let request = || holder.lock("k").ttl(TTL).watchdog().wait(LONG);
    let guard = request().acquire().await.expect("free");
    let node = server.probe(prefix, "lock:").nodes("k").remove(0);
    if matches!(late, Late::Removal) {
        pipe.hold(&S::removal(&node.path));
    }
    let again = async {
        wait::within("the revocation", LONG, guard.lost()).await;
        match late {
            Late::All => pipe.set(Flow::Stall),
            Late::Removal => {
                let is_held = || 0 < pipe.held();
                wait::until_async("the removal is held back", LONG, is_held).await;
            }
        }
        drop(guard);
        let again = request().acquire().await.expect("its turn comes");
        pipe.set(Flow::Pass);
        pipe.hold(&[]);
        again
    };
    let (was, again) = tokio::join!(operator.force_release("k"), again);
    assert!(was.expect("it answers").is_some());
    let lock = holder.inspect("k").await.expect("it answers");
    assert_eq!(lock.fence, again.fence());
    again.release().await.expect("it is still held");
}

#[tokio::test(flavor = "multi_thread")]
async fn late_requests_change_nothing_on_etcd() {
    a_late_request_changes_nothing::<Etcd>(Late::All, "late-requests").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn late_requests_change_nothing_on_zookeeper() {
    a_late_request_changes_nothing::<Zookeeper>(Late::All, "late-requests").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_removal_changes_nothing_on_etcd() {
    a_late_request_changes_nothing::<Etcd>(Late::Removal, "late-removal").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_removal_changes_nothing_on_zookeeper() {
    a_late_request_changes_nothing::<Zookeeper>(Late::Removal, "late-removal").await;
}

/// Two locks of one process are taken away, and the body of the first lock does not end. Fails if
/// this first holder delays the notification of the second one. Also fails if the second lock is
/// free before its body has ended.
async fn two_locks_of_one_process_are_revoked_separately(store: &Store) {
    let (pool, one, two) = (store.pool().await, store.pool().await, store.pool().await);
    let stuck = pool.lock("stuck").ttl(TTL).acquire().await.expect("free");
    let well = pool.lock("well").ttl(TTL).acquire().await.expect("free");
    let notified = async {
        stuck.lost().await;
        let (started, excuse) = (Instant::now(), Excuse::begin());
        let notified = async {
            well.lost().await;
            // The holder of the second lock leaves a moment later. The lock must not be free before
            // that.
            tokio::time::sleep(GRACE / 3).await;
            let lock = two.inspect("well").await.expect("it answers");
            assert!(lock.is_taken() || is_over(started), "{lock:?}");
            drop(well);
        };
        let (was, ()) = tokio::join!(two.force_release("well"), notified);
        assert!(was.expect("it answers").is_some());
        let took = started.elapsed();
        assert!(took < GRACE * 9 / 10 + excuse.so_far(), "{took:?}");
    };
    tokio::join!(takes_the_grace(&one, "stuck"), notified);
    drop(stuck);
}

/// Fails if a pool cannot inspect locks, or take a second lock away, while its `force_release`
/// waits for the holder of the first lock.
async fn a_pool_answers_while_it_waits_for_a_revoked_holder(store: &Store) {
    let (pool, operator) = (store.pool().await, store.pool().await);
    let guards = ["a", "b"].map(|key| pool.lock(key).ttl(TTL).acquire());
    let guards = futures_util::future::try_join_all(guards).await;
    let guards = guards.expect("they are free");
    let begun = Instant::now();
    let looks = async {
        guards[0].lost().await;
        let (started, excuse) = (Instant::now(), Excuse::begin());
        let lock = operator.inspect("b").await.expect("it answers");
        assert!(lock.is_taken() || is_over(begun), "{lock:?}");
        assert!(operator.locks("*").next().await.is_some() || is_over(begun));
        let took = started.elapsed();
        assert!(took < GRACE / 2 + excuse.so_far(), "{took:?}");
    };
    tokio::join!(
        takes_the_grace(&operator, "a"),
        takes_the_grace(&operator, "b"),
        looks
    );
    drop(guards);
}

/// Fails if a holder is notified only after a heartbeat of its session has ended. On ZooKeeper, a
/// heartbeat takes more than half of the server's tick, which is six seconds here. The holder must
/// be notified within 1.5 seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_is_notified_during_a_heartbeat() {
    const ROUNDS: u32 = 10;
    /// Ttl of the lock. It is short, so that the lock's session has frequent heartbeats.
    const LEASE: Duration = Duration::from_secs(7);
    let server = Settings::new().tick(Duration::from_secs(6)).start();
    let url = server.url("beating");
    let holder = wait::connected(LockPool::builder().url(&url)).await;
    let operator = connect(&url).await;
    let mut random = Random::seeded("told while heartbeats are under way");
    for round in 0..ROUNDS {
        let request = holder.lock("k").ttl(LEASE).watchdog().wait(LONG);
        let guard = request.acquire().await.expect("its turn comes");
        // The test cannot detect heartbeats. So the times are random, and only some of the rounds
        // coincide with a heartbeat.
        tokio::time::sleep(random.duration(Duration::from_secs(4))).await;
        let (started, excuse) = (Instant::now(), Excuse::begin());
        let notified = async {
            guard.lost().await;
            let took = started.elapsed();
            drop(guard);
            took
        };
        let (was, took) = tokio::join!(operator.force_release("k"), notified);
        assert!(was.expect("it answers").is_some(), "round {round}");
        let most = GRACE / 2 + excuse.so_far();
        assert!(took < most, "round {round}: {took:?}");
    }
}

/// Fails if a lock that was taken without this library is shown with an owner. Also fails if
/// `force_release` waits for the holder of this lock, which cannot be notified.
async fn a_lock_of_another_client_is_shown_and_revoked(store: &Store) {
    let pool = store.pool().await;
    assert!(store.probe.take("theirs", TTL));
    let lock = pool.inspect("theirs").await.expect("it answers");
    assert_eq!((lock.state, lock.fence), (LockState::Exclusive, None));
    let holder = &lock.holders[0];
    assert!(holder.foreign, "{lock:?}");
    assert_eq!(
        (&holder.owner, holder.since, holder.fence),
        (&None, None, None)
    );
    let mut locks = pool.locks("*");
    let listed = locks.next().await.expect("it is listed");
    assert!(listed.expect("it answers").holders[0].foreign);
    assert!(locks.next().await.is_none());
    let (started, excuse) = (Instant::now(), Excuse::begin());
    let was = pool.force_release("theirs").await.expect("it answers");
    assert!(was.expect("it was there").holders[0].foreign);
    let guard = pool.lock("theirs").ttl(TTL).acquire().await;
    guard.expect("free").release().await.expect("held");
    let took = started.elapsed();
    assert!(took < GRACE * 9 / 10 + excuse.so_far(), "{took:?}");
}

/// Fails if an operator cannot take away a lock whose holder is connected to another member of the
/// cluster.
async fn over_another_member<S: SessionServer>() {
    let servers = tokio::task::spawn_blocking(|| S::cluster(3)).await;
    let servers = servers.expect("a cluster starts");
    let url = |at: usize| S::url_of_all([servers[at].address()], "members");
    let (holder, operator) = (connect(&url(0)).await, connect(&url(1)).await);
    let guard = holder.lock("k").ttl(SHORT).watchdog().acquire().await;
    let guard = guard.expect("free");
    let lock = operator.inspect("k").await.expect("it answers");
    assert_eq!(lock.fence, guard.fence());
    is_here(lock.holders[0].owner.as_ref(), "");
    let notified = async {
        guard.lost().await;
        drop(guard);
    };
    let (started, excuse) = (Instant::now(), Excuse::begin());
    let (was, ()) = tokio::join!(operator.force_release("k"), notified);
    assert!(was.expect("it answers").is_some());
    let took = started.elapsed();
    assert!(took < GRACE * 9 / 10 + excuse.so_far(), "{took:?}");
    assert_eq!(operator.force_release("k").await, Ok(None));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revocation_works_through_another_etcd_member() {
    over_another_member::<Etcd>().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revocation_works_through_another_zookeeper_member() {
    over_another_member::<Zookeeper>().await;
}
