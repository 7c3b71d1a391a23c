//! Tests of the URL, of users, of unsupported features, and of the findings of `check`.

use std::time::Duration;

use leasehold::LockError;
use leasehold::testing::Kit;
use leasehold_tests::session_server::{SessionProbe as _, SessionServer as _};
use leasehold_tests::wait;
use leasehold_tests::zookeeper::{Settings, Zookeeper};

use super::TTL;
use crate::deployments::session_servers::connecting::{
    self, is_not_possible, may_take_locks, may_take_no_locks,
};
use crate::deployments::session_servers::{LONG, connect_patiently, on_one_thread, works};

on_one_thread! { Zookeeper, connecting:
    refusals_name_the_holder,
    a_closed_port_is_unavailable,
    a_downgraded_lock_stays_exclusive,
    the_shortest_and_the_longest_ttl_work,
    keys_with_special_characters_work,
}

/// Fails if an unsupported feature is ignored, or if the error does not name ZooKeeper.
#[tokio::test]
async fn unsupported_features_are_refused() {
    let url = Zookeeper::shared().url("refused");
    let wrong = [
        url.replace("zookeeper://", "zookeepers://"),
        url.replace("/refused", "/zookeeper/refused"),
        url.replace("tick=500ms", "tick=0s"),
    ];
    let pool = connecting::unsupported_features_are_refused::<Zookeeper>(&url, &wrong).await;
    let kept = pool.lock("k").ttl(TTL);
    let kept = kept.run_with_cooldown(TTL, async { Ok::<_, ()>(()) }).await;
    is_not_possible::<Zookeeper>(kept.map(drop));
    let kept = pool.lock("k").ttl(TTL).min_hold(TTL / 2).acquire().await;
    is_not_possible::<Zookeeper>(kept.map(drop));
    let guard = pool.lock("k").ttl(TTL).acquire().await.expect("free");
    is_not_possible::<Zookeeper>(guard.release_after(TTL).await);
    let next = pool.lock("k").ttl(TTL).acquire().await;
    next.expect("released at once")
        .release()
        .await
        .expect("held");
    let kit = Kit::on(&url).await.expect("it connects");
    let kept = kit.pool().lock("k").ttl(TTL).min_hold(TTL / 2);
    is_not_possible::<Zookeeper>(kept.acquire().await.map(drop));
    works::<Zookeeper>(&pool, "k").await;
}

/// Fails if a lock is granted for longer than its session can last, or if the refusal does not name
/// that limit.
#[tokio::test]
async fn a_ttl_longer_than_any_session_is_refused() {
    let server = Settings::new().start();
    let pool = connect_patiently(&server.url("too-long")).await;
    let refused = pool.lock("k").ttl(Duration::from_secs(10)).acquire().await;
    let error = refused.map(drop).expect_err("it is too long");
    assert!(matches!(error, LockError::Config { .. }), "{error}");
    assert!(error.to_string().contains("6s 48ms"), "{error}");
    works::<Zookeeper>(&pool, "k").await;
    let longest = pool.lock("k").ttl(Duration::from_secs(6)).wait(LONG);
    let longest = longest.acquire().await.expect("a session covers it");
    longest.release().await.expect("held");
}

/// Fails if a call succeeds in a directory that another kind of ZooKeeper lock uses. Also fails if
/// the call's znode stays there while the call waits, because clients of the other kind would wait
/// behind it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_of_another_recipe_is_refused() {
    const WAIT: Duration = Duration::from_secs(3);
    let server = Zookeeper::shared();
    let probe = server.probe("recipe", "lock:");
    let directory = probe.directory("k");
    probe.client().make_path(&directory);
    let reader = probe.client().enqueue(&format!("{directory}/__READ__"));
    let reader = reader.expect("the directory is there");
    let pool = connect_patiently(&server.url("recipe")).await;
    let waiting = pool.clone();
    let waiting = tokio::spawn(async move {
        let waited = waiting.lock("k").ttl(TTL).wait(WAIT).acquire().await;
        waited.map(drop)
    });
    let (mut looks, mut crowded) = (0, 0);
    while !waiting.is_finished() {
        looks += 1;
        crowded += u32::from(1 < probe.client().names(&directory).len());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(20 < looks, "it waited");
    assert!(crowded < looks / 2, "{crowded} of {looks}");
    let tried = pool.lock("k").ttl(TTL).acquire().await.map(drop);
    for refused in [waiting.await.expect("no panic"), tried] {
        let error = refused.expect_err("it is another recipe's").to_string();
        assert!(error.contains("InterProcessMutex"), "{error}");
    }
    wait::until_async("the reader is alone", LONG, || {
        let left = probe.nodes("k");
        left.len() == 1 && left[0].path == reader
    })
    .await;
}

/// Fails if `check` does not detect a single server, a missing server, or a server with other
/// limits for sessions.
#[tokio::test]
async fn findings() {
    let apart = || {
        let longer = Settings::new().longest_session(LONG).start();
        [Zookeeper::start(), longer]
    };
    let _ = connecting::findings(|_| true, apart, "session").await;
}

/// Fails if a password is shown, or if locks need rights outside of their chroot.
#[tokio::test]
async fn users_need_only_the_documented_rights() {
    let server = Zookeeper::start();
    let client = server.client();
    client.make_path("/shop");
    client.restrict("/shop", "service", "hunter2");
    let url = |user: &str| {
        let url = server.url("shop");
        url.replace("zookeeper://", &format!("zookeeper://{user}@"))
    };
    let pool = connect_patiently(&url("service:hunter2")).await;
    may_take_locks::<Zookeeper>(&pool, "hunter2").await;

    // The server accepts any user name and password, and checks only their rights to the znodes.
    for elsewhere in [url("service:Hunter3"), server.url("shop")] {
        let elsewhere = connect_patiently(&elsewhere).await;
        let reported = may_take_no_locks::<Zookeeper>(&elsewhere).await;
        assert!(!reported.contains("Hunter3"), "{reported}");
    }
}
