//! The URL, users, what the engine refuses, and what a check says of the cluster.

use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use leasehold::{LockError, LockPool, Replicas};
use leasehold_tests::wait;
use leasehold_tests::zookeeper::{Settings, Zookeeper, url_of};

use super::{LONG, TTL, connect, works};

async fn refusal(url: &str) -> LockError {
    let pool = LockPool::builder().url(url);
    pool.connect().await.map(drop).expect_err(url)
}

fn code(error: &LockError) -> &'static str {
    match error {
        LockError::Unavailable { source } => source.code(),
        other => panic!("{other}"),
    }
}

/// Fails if what the engine cannot do is ignored, or is refused without its name.
#[tokio::test]
async fn what_it_cannot_do_is_refused() {
    let url = Zookeeper::shared().url("refused");
    for wrong in [
        url.replace("zookeeper://", "zookeepers://"),
        url.replace("/refused", "/zookeeper/refused"),
        url.replace("tick=500ms", "tick=0s"),
    ] {
        let error = refusal(&wrong).await;
        assert!(matches!(error, LockError::Config { .. }), "{error}");
        assert!(error.to_string().contains("zookeeper"), "{error}");
    }
    let replicas = LockPool::builder().url(&url).replicas(Replicas::AtLeast(1));
    let error = replicas.connect().await.map(drop).expect_err("of Redis");
    assert!(error.to_string().contains("zookeeper://"), "{error}");

    let pool = connect(&url).await;
    let request = || pool.lock("k").ttl(TTL);
    let readers = request().shared().acquire().await.map(drop);
    let permits = request().permits(3).acquire().await.map(drop);
    let paid = async { Ok::<u32, LockError>(1) };
    let replayed = request().run_replayed(TTL, paid).await.map(drop);
    let listed = pool.locks("*").next().await.expect("an answer");
    let kept = request().run_then_hold(TTL, async { Ok::<_, ()>(()) });
    let kept = kept.await.map(drop);
    let guard = request().acquire().await.expect("it is free");
    for refused in [
        readers,
        permits,
        replayed,
        kept,
        pool.inspect("k").await.map(drop),
        listed.map(drop),
        pool.force_release("k").await.map(drop),
        guard.hand_over().map(drop),
    ] {
        let error = refused.expect_err("it is not possible");
        assert!(matches!(error, LockError::Config { .. }), "{error}");
        assert!(error.to_string().contains("`zookeeper://`"), "{error}");
    }
    works(&pool, "k").await;
}

/// Fails if a refused call is not told the holder, or one that waited, or one of several keys.
#[tokio::test]
async fn refusals_name_the_holder() {
    let url = Zookeeper::shared().url("named");
    let (pool, other) = (connect(&url).await, connect(&url).await);
    let held = pool.lock("k").ttl(TTL).acquire().await.expect("free");
    let refused = other.lock("k").ttl(TTL).acquire().await;
    // Longer than a session takes to open, and a request to be answered.
    let waits = other.lock("k").ttl(TTL).wait(Duration::from_secs(3));
    let waited = waits.acquire().await;
    let several = other.lock_all(["j", "k"]).ttl(TTL).acquire().await;
    for refused in [refused.map(drop), waited.map(drop), several.map(drop)] {
        let error = refused.expect_err("it is held");
        let holder = error.holder().expect("it is known");
        assert_eq!(holder.pid, std::process::id(), "{error}");
        assert!(error.is_contention(), "{error}");
    }
    held.release().await.expect("held");
}

/// Fails if an outage is not told, or is told with the password.
#[tokio::test]
async fn nobody_listens() {
    let closed = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = closed.local_addr().expect("it is bound");
    drop(closed);
    let error = refusal(&format!("zookeeper://u:hunter2@{address}/p")).await;
    assert!(error.is_unavailable(), "{error}");
    assert!(!error.to_string().contains("hunter2"), "{error}");
}

/// Fails if a lock is granted for longer than its session can last, or the refusal does not say how
/// long that is.
#[tokio::test]
async fn a_ttl_beyond_all_sessions_is_refused() {
    let server = Settings::new().start();
    let pool = connect(&server.url("too-long")).await;
    let refused = pool.lock("k").ttl(Duration::from_secs(10)).acquire().await;
    let error = refused.map(drop).expect_err("it is too long");
    assert!(matches!(error, LockError::Config { .. }), "{error}");
    assert!(error.to_string().contains("6s 48ms"), "{error}");
    works(&pool, "k").await;
    let longest = pool.lock("k").ttl(Duration::from_secs(6)).wait(LONG);
    let longest = longest.acquire().await.expect("a session covers it");
    longest.release().await.expect("held");
}

/// Fails if the shortest or the longest ttl does not work.
#[tokio::test]
async fn from_the_shortest_ttl_to_the_longest() {
    let pool = connect(&Zookeeper::shared().url("ttls")).await;
    for (number, ttl) in [100, 1_000, 1_001, 86_400_000].into_iter().enumerate() {
        let ttl = Duration::from_millis(ttl);
        let key = format!("k{number}");
        let guard = pool.lock(&*key).ttl(ttl).wait(LONG).acquire().await;
        match guard {
            Ok(guard) if Duration::from_secs(2) < ttl => guard.release().await.expect("held"),
            // On a busy machine such a lease is over soon.
            Ok(guard) => drop(guard),
            Err(LockError::Lost { .. }) if ttl <= Duration::from_secs(2) => {}
            Err(error) => panic!("{ttl:?}: {error}"),
        }
    }
}

/// Fails if keys that are parts of each other share a lock, or if any text is refused.
#[tokio::test]
async fn keys_of_all_kinds() {
    let pool = connect(&Zookeeper::shared().url("kinds")).await;
    let mut guards = Vec::new();
    for key in [
        "a",
        "a/",
        "a/b",
        "a%2Fb",
        "%",
        "ä ö",
        "a:b",
        "\u{85}",
        "\u{e000}",
        "\u{1f600}",
    ] {
        let guard = pool.lock(key).ttl(TTL).acquire().await;
        guards.push(guard.unwrap_or_else(|error| panic!("{key}: {error}")));
    }
    let bare = LockPool::builder().url(Zookeeper::shared().url("kinds"));
    let bare = wait::connected(bare.namespace("")).await;
    for key in [".", "..", "...", "zookeeper", "%"] {
        let guard = bare.lock(key).ttl(TTL).acquire().await;
        guards.push(guard.unwrap_or_else(|error| panic!("{key}: {error}")));
    }
    for guard in guards {
        guard.release().await.expect("held");
    }
}

/// Fails if a single server, a server that is away, or one with other sessions is not found out.
#[tokio::test]
async fn findings() {
    let mut ensemble = Zookeeper::ensemble(3);
    let pool = connect(&url_of(&ensemble, "findings")).await;
    let report = pool.check().await.expect("the ensemble answers");
    assert!(report.findings.is_empty(), "{report}");
    ensemble[1].kill();
    // It may have been the leader.
    works(&pool, "led-again").await;
    let report = pool.check().await.expect("two are enough");
    assert!(report.is_ready(), "{report}");
    let away = report.find("node").expect("one is away");
    let name = ensemble[1].address().to_string();
    assert!(away.text.contains(&name), "{report}");

    let other = Settings::new().longest_session(LONG).start();
    let two = [Zookeeper::start(), other];
    let apart = connect(&url_of(&two, "findings")).await;
    let report = apart.check().await.expect("one of them answers");
    assert!(report.find("session").is_some(), "{report}");

    let single = connect(&Zookeeper::shared().url("findings")).await;
    let report = single.check().await.expect("the server answers");
    assert!(
        report.is_ready() && report.find("quorum").is_some(),
        "{report}"
    );
}

/// Fails if a password is shown, or if locks need more rights than those below their chroot.
#[tokio::test]
async fn users_and_rights() {
    let server = Zookeeper::start();
    let client = server.client();
    client.make_path("/shop");
    client.restrict("/shop", "service", "hunter2");
    let url = |user: &str| {
        let url = server.url("shop");
        url.replace("zookeeper://", &format!("zookeeper://{user}@"))
    };
    let pool = connect(&url("service:hunter2")).await;
    assert!(!format!("{pool:?}").contains("hunter2"), "{pool:?}");
    works(&pool, "allowed").await;
    let all = pool.lock_all(["a", "b"]).ttl(TTL).acquire().await;
    all.expect("free").release().await.expect("held");
    let report = pool.check().await.expect("the server answers");
    assert!(report.is_ready(), "{report}");
    assert!(!report.to_string().contains("hunter2"), "{report}");

    // The server takes any name, and knows what it may do.
    for elsewhere in [url("service:Hunter3"), server.url("shop")] {
        let elsewhere = connect(&elsewhere).await;
        let report = elsewhere.check().await.expect("the server answers");
        let denied = report.find("permission").expect("it may not");
        assert!(!denied.text.contains("Hunter3"), "{report}");
        let refused = elsewhere.lock("denied").ttl(TTL).acquire().await;
        let refused = refused.map(drop).expect_err("it may not");
        assert_eq!(code(&refused), "permission");
    }
}
