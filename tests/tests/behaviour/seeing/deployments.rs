//! Tests of inspecting locks behind Sentinel, on a cluster and on a quorum.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use leasehold::{LockInfo, LockPool, LockState};
use leasehold_tests::cluster::{Cluster, MASTERS, Setup};
use leasehold_tests::quorum::Quorum;
use leasehold_tests::sentinel::Deployment;
use leasehold_tests::server::ServerOptions;
use leasehold_tests::stores::NO_OUTAGE;
use leasehold_tests::wait;

use super::{LONG, TTL, holds, is_here, seen};

/// The longest ttl on a quorum. The nodes vote only after they have run for longer than this.
const SHORT: Duration = Duration::from_secs(8);

async fn connect(url: &str) -> LockPool {
    let pool = LockPool::builder().url(url).io_timeout(NO_OUTAGE);
    wait::connected(pool).await
}

async fn listed(pool: &LockPool, pattern: &str) -> Vec<LockInfo> {
    let (mut locks, mut listed) = (pool.locks(pattern), Vec::new());
    while let Some(lock) = locks.next().await {
        listed.push(lock.expect("it answers"));
    }
    listed
}

/// Fails if a pool keeps querying a master after another server has replaced it.
#[tokio::test(flavor = "multi_thread")]
async fn a_fail_over_is_followed() {
    let mut deployment = Deployment::start();
    let pool = connect(&deployment.url()).await;
    let guard = pool.lock("k").ttl(TTL).acquire().await.expect("free");
    assert_eq!(
        pool.inspect("k").await.expect("it answers").fence,
        guard.fence()
    );
    let dead = tokio::task::block_in_place(|| deployment.fail_over());
    let after = pool.lock("after").ttl(TTL).wait(LONG).acquire().await;
    let after = after.expect("a replica has taken over");
    let begun = SystemTime::now();
    let lock = seen(&pool, "after", LockInfo::is_taken).await;
    assert_eq!(lock.fence, after.fence());
    is_here(lock.holders[0].owner.as_ref(), "");
    assert!(lock.holders[0].since <= Some(begun + super::ROUNDED));
    let was = pool.force_release("after").await.expect("it answers");
    assert!(was.is_some());
    after.lost().await;
    drop((guard, after, dead));
}

/// Fails if a pool queries only one master of a cluster, or misses a lock while its slot moves or
/// after that.
#[tokio::test(flavor = "multi_thread")]
async fn the_locks_of_all_masters_are_listed() {
    let cluster = Setup::new().start();
    let (pool, other) = (connect(&cluster.url()).await, connect(&cluster.url()).await);
    let keys: BTreeSet<String> = (0..60).map(|number| format!("c:{number}")).collect();
    let begun = SystemTime::now();
    let held = keys.iter().map(|key| pool.lock(key).ttl(TTL).acquire());
    let held = futures_util::future::try_join_all(held).await;
    let held = held.expect("free");
    let share = pool.lock("c:share").ttl(TTL).shared().acquire().await;
    let share = share.expect("free");
    let waiting = tokio::spawn(other.lock("c:7").ttl(TTL).wait(LONG).acquire());
    let lock = seen(&other, "c:7", |lock| lock.waiting.len() == 1).await;
    holds(&lock.holders[0], "", begun);
    is_here(lock.waiting[0].owner.as_ref(), "");
    let lock = other.inspect("c:share").await.expect("it answers");
    assert_eq!(lock.state, LockState::Shared);
    holds(&lock.holders[0], "", begun);

    let slot = cluster.slot("lock:c:7");
    let to = (cluster.owner(slot) + 1) % MASTERS;
    for step in 0..3 {
        match step {
            0 => {}
            1 => cluster.begin_move(slot, to),
            _ => {
                while cluster.move_keys(slot, to, 10) > 0 {}
                cluster.finish_move(slot, to);
            }
        }
        let found = listed(&other, "c:*").await;
        let found: BTreeSet<String> = found.into_iter().map(|lock| lock.key).collect();
        let mut expected = keys.clone();
        expected.insert("c:share".to_owned());
        assert_eq!(found, expected, "step {step}");
        let lock = other.inspect("c:7").await.expect("it answers");
        assert_eq!(lock.state, LockState::Exclusive, "step {step}");
    }
    let was = other.force_release("c:7").await.expect("it answers");
    assert!(was.is_some());
    drop((held, share));
    let next = waiting.await.expect("no panic").expect("its turn");
    next.release().await.expect("held");
    no_lock_is_left(&cluster, &other).await;
}

async fn no_lock_is_left(cluster: &Cluster, pool: &LockPool) {
    let gone = || cluster.keys().iter().all(|key| key.contains("%leasehold"));
    wait::until_async("all locks are released", LONG, gone).await;
    assert_eq!(listed(pool, "*").await, []);
}

/// Fails if a quorum's lock is shown without the number of nodes that have it, or if a lock on a
/// minority counts as held.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_of_a_quorum_shows_its_number_of_nodes() {
    let mut quorum = Quorum::older_than(3, SHORT);
    let url = quorum.url_with("max_ttl=8s&node_timeout=1s");
    let (pool, other) = (connect(&url).await, connect(&url).await);
    assert_eq!(other.inspect("q").await.expect("it answers").nodes, Some(3));
    let begun = SystemTime::now();
    let guard = pool.lock("q").ttl(SHORT).watchdog().acquire().await;
    let guard = guard.expect("free");
    let on_all = |lock: &LockInfo| lock.holders.first().is_some_and(|one| one.nodes == Some(3));
    let lock = seen(&other, "q", on_all).await;
    assert_eq!((lock.state, lock.fence), (LockState::Exclusive, None));
    let holder = &lock.holders[0];
    is_here(holder.owner.as_ref(), "");
    assert_eq!((holder.fence, holder.foreign), (None, false));
    assert!(
        holder
            .since
            .is_some_and(|since| begun - super::ROUNDED <= since)
    );
    let error = other
        .lock("q")
        .ttl(SHORT)
        .acquire()
        .await
        .expect_err("held");
    is_here(error.holder(), "");

    // One node has a lock that the others do not have. Another node is killed. It could have
    // completed both locks.
    quorum.servers[1]
        .probe()
        .overwrite("lock:minority", "theirs", TTL);
    let lock = other.inspect("minority").await.expect("all answer");
    assert_eq!(lock.state, LockState::Free, "one node is no majority");
    quorum.servers[0].kill();
    let lock = other.inspect("q").await.expect("a majority answers");
    assert_eq!((lock.nodes, lock.holders[0].nodes), (Some(2), Some(2)));
    assert_eq!(lock.state, LockState::Exclusive);
    let lock = other.inspect("minority").await.expect("a majority answers");
    assert_eq!(lock.state, LockState::Exclusive, "a node is silent");
    assert!(lock.holders[0].foreign && lock.holders[0].nodes == Some(1));
    let keys = listed(&other, "*").await.into_iter().map(|lock| lock.key);
    assert_eq!(
        keys.collect::<BTreeSet<_>>(),
        ["minority", "q"].map(str::to_owned).into()
    );

    let was = other.force_release("q").await.expect("a majority answers");
    assert_eq!(was.expect("it was held").holders[0].nodes, Some(2));
    wait::within("it is notified", LONG, Box::pin(guard.lost())).await;
    assert!(guard.release().await.expect_err("lost").is_lost());
    seen(&other, "q", |lock| lock.holders.is_empty()).await;
    quorum.servers[1].kill();
    let error = other.inspect("q").await.expect_err("no majority answers");
    assert!(error.is_unavailable(), "{error}");
}

/// Fails if a node is queried without the password of the URL, or if its list ends after the first
/// page.
#[tokio::test(flavor = "multi_thread")]
async fn all_pages_of_a_quorum_with_a_password_are_listed() {
    let quorum = Quorum::old_with(3, &ServerOptions::new().password("hunter2"));
    let url = quorum.url_with("node_timeout=1s");
    let url = url.replace("redlock://", "redlock://:hunter2@");
    let (pool, other) = (connect(&url).await, connect(&url).await);
    // A page has about 200 keys of one node.
    let keys: BTreeSet<String> = (0..450).map(|number| format!("q:{number}")).collect();
    let request = |key: &String| pool.lock(key).ttl(LONG * 2).wait(LONG);
    let held = keys.iter().map(|key| request(key).acquire());
    let held = futures_util::future::try_join_all(held).await;
    let held = held.expect("free");
    let found = listed(&other, "*").await;
    let answered = found.iter().all(|lock| lock.nodes == Some(3));
    assert!(answered, "each node answers about each lock");
    let found: BTreeSet<String> = found.into_iter().map(|lock| lock.key).collect();
    assert_eq!(found, keys);
    let was = other.force_release("q:7").await.expect("all answer");
    assert_eq!(was.and_then(|was| was.nodes), Some(3));
    drop(held);
}
