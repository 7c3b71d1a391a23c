//! Tests of the URL, of unsupported features, and of the findings of `check`.

use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use leasehold::{CheckReport, Finding, LockError, LockPool, LockState, Replicas};
use leasehold_tests::session_server::SessionServer;
use leasehold_tests::stores::NO_OUTAGE;
use leasehold_tests::wait;

use super::{HELD, LONG, Times, connect_patiently, works};

async fn refusal(url: &str) -> LockError {
    let pool = LockPool::builder().url(url);
    pool.connect().await.map(drop).expect_err(url)
}

pub(crate) fn code(error: &LockError) -> &'static str {
    match error {
        LockError::Unavailable { source } => source.code(),
        other => panic!("{other}"),
    }
}

/// Fails if a wrong URL or an unsupported feature is accepted, or if its error does not name the
/// scheme of the store. Returns a pool of `url`.
pub(crate) async fn unsupported_features_are_refused<S: Times>(
    url: &str,
    wrong: &[String],
) -> LockPool {
    for wrong in wrong {
        let error = refusal(wrong).await;
        assert!(matches!(error, LockError::Config { .. }), "{error}");
        assert!(error.to_string().contains(S::SCHEME), "{error}");
    }
    let replicas = LockPool::builder().url(url).replicas(Replicas::AtLeast(1));
    let error = replicas.connect().await.map(drop).expect_err("of Redis");
    let scheme = format!("{}://", S::SCHEME);
    assert!(error.to_string().contains(&scheme), "{error}");

    let pool = connect_patiently(url).await;
    let request = || pool.lock("k").ttl(S::TTL);
    let readers = request().shared().acquire().await.map(drop);
    let permits = request().permits(3).acquire().await.map(drop);
    let paid = async { Ok::<u32, LockError>(1) };
    let replayed = request().run_replayed(S::TTL, paid).await.map(drop);
    let guard = request().acquire().await.expect("it is free");
    for refused in [readers, permits, replayed, guard.hand_over().map(drop)] {
        is_not_possible::<S>(refused);
    }
    works::<S>(&pool, "k").await;
    pool
}

/// Fails unless the call was refused with an error that names the scheme of the store.
pub(crate) fn is_not_possible<S: SessionServer>(refused: Result<(), LockError>) {
    let error = refused.expect_err("it is not possible");
    assert!(matches!(error, LockError::Config { .. }), "{error}");
    let scheme = format!("`{}://`", S::SCHEME);
    assert!(error.to_string().contains(&scheme), "{error}");
}

/// Fails if `downgrade` returns an error, or lets another call take the lock.
pub(crate) async fn a_downgraded_lock_stays_exclusive<S: Times>() {
    let url = S::shared().url("downgraded");
    let pool = connect_patiently(&url).await;
    let other = connect_patiently(&url).await;
    let mut guard = pool.lock("k").ttl(HELD).acquire().await.expect("free");
    guard.downgrade().await.expect("it is held");
    let lock = other.inspect("k").await.expect("it answers");
    assert_eq!(lock.state, LockState::Exclusive);
    for pool in [&pool, &other] {
        let refused = pool.lock("k").ttl(S::TTL).acquire().await;
        let error = refused.expect_err("it is held");
        assert!(error.is_contention(), "{error}");
    }
    guard.release().await.expect("held");
    works::<S>(&other, "k").await;
}

/// Fails if the error of a refused call does not name the holder. Tests a call without `wait`, a
/// call with `wait`, and a call for several keys.
pub(crate) async fn refusals_name_the_holder<S: Times>() {
    let url = S::shared().url("named");
    let pool = connect_patiently(&url).await;
    let other = connect_patiently(&url).await;
    let held = pool.lock("k").ttl(HELD).acquire().await.expect("free");
    let refused = other.lock("k").ttl(S::TTL).acquire().await;
    // This wait is longer than it takes to open a session and to answer a request.
    let waits = other.lock("k").ttl(S::TTL).wait(Duration::from_secs(5));
    let waited = waits.acquire().await;
    let several = other.lock_all(["j", "k"]).ttl(S::TTL).acquire().await;
    for refused in [refused.map(drop), waited.map(drop), several.map(drop)] {
        let error = refused.expect_err("it is held");
        let holder = error.holder().expect("it is known");
        assert_eq!(holder.pid, std::process::id(), "{error}");
        assert!(error.is_contention(), "{error}");
    }
    held.release().await.expect("held");
}

/// Fails if a closed port is not reported as an outage, or if the error shows the password of the
/// URL.
pub(crate) async fn a_closed_port_is_unavailable<S: SessionServer>() {
    let closed = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = closed.local_addr().expect("it is bound");
    drop(closed);
    let error = refusal(&format!("{}://u:hunter2@{address}/p", S::SCHEME)).await;
    assert!(error.is_unavailable(), "{error}");
    assert!(!error.to_string().contains("hunter2"), "{error}");
}

/// Fails if the shortest or the longest ttl does not work. A call with a short ttl is repeated if
/// its lease ends before the call returns, as may happen on a busy machine.
pub(crate) async fn the_shortest_and_the_longest_ttl_work<S: SessionServer>() {
    let pool = connect_patiently(&S::shared().url("ttls")).await;
    for (number, ttl) in [100, 1_000, 1_001, 86_400_000].into_iter().enumerate() {
        let ttl = Duration::from_millis(ttl);
        let key = format!("k{number}");
        let acquire = || pool.lock(&*key).ttl(ttl).wait(LONG).acquire();
        let guard = wait::begun(acquire).await;
        let guard = guard.unwrap_or_else(|error| panic!("{ttl:?}: {error}"));
        if Duration::from_secs(2) < ttl {
            guard.release().await.expect("held");
        }
    }
}

/// Fails if two keys share a lock because one of them is a part of the other, or its escaped form.
/// Also fails if any key is refused.
pub(crate) async fn keys_with_special_characters_work<S: SessionServer>() {
    const KEYS: [&str; 10] = [
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
    ];
    let url = S::shared().url("kinds");
    let pool = connect_patiently(&url).await;
    let bare = LockPool::builder().url(url).namespace("");
    let bare = wait::connected(bare.io_timeout(NO_OUTAGE)).await;
    let mut guards = Vec::new();
    let of_bare = [".", "..", "...", "zookeeper", "%"].map(|key| (&bare, key));
    for (pool, key) in KEYS.map(|key| (&pool, key)).into_iter().chain(of_bare) {
        let guard = pool.lock(key).ttl(HELD).acquire().await;
        guards.push(guard.unwrap_or_else(|error| panic!("{key}: {error}")));
    }
    for guard in guards {
        guard.release().await.expect("held");
    }
}

/// Fails if `check` has no finding about a missing member, about two servers without a common
/// cluster (`apart`), or about a single server. Also fails if three running members cause a finding
/// for which `counts` returns true. Returns the report on the two servers, which has a finding with
/// the code `code`.
pub(crate) async fn findings<S: Times>(
    counts: impl Fn(&Finding) -> bool,
    apart: impl FnOnce() -> [S; 2],
    code: &str,
) -> CheckReport {
    let mut cluster = S::cluster(3);
    let pool = connect_patiently(&S::url_of(&cluster, "findings")).await;
    let report = pool.check().await.expect("the cluster answers");
    assert!(!report.findings.iter().any(counts), "{report}");
    cluster[1].kill();
    // The killed member may have been the leader, so the test waits until locks can be taken again.
    works::<S>(&pool, "led-again").await;
    let report = pool.check().await.expect("two are enough");
    assert!(report.is_ready(), "{report}");
    let away = report.find("node").expect("one is away");
    let name = cluster[1].address().to_string();
    assert!(away.text.contains(&name), "{report}");

    let single = connect_patiently(&S::shared().url("findings")).await;
    let report = single.check().await.expect("the server answers");
    assert!(
        report.is_ready() && report.find("quorum").is_some(),
        "{report}"
    );

    let two = apart();
    let apart = connect_patiently(&S::url_of(&two, "findings")).await;
    let report = apart.check().await.expect("one of them answers");
    assert!(report.find(code).is_some(), "{report}");
    report
}

/// Fails if the pool, whose user has all necessary rights, cannot take locks. Also fails if its
/// debug output or the report of `check` shows the password.
pub(crate) async fn may_take_locks<S: Times>(pool: &LockPool, password: &str) {
    assert!(!format!("{pool:?}").contains(password), "{pool:?}");
    works::<S>(pool, "allowed").await;
    let all = pool.lock_all(["a", "b"]).ttl(S::TTL).wait(LONG);
    let all = all.acquire().await;
    all.expect("free").release().await.expect("held");
    let report = pool.check().await.expect("the server answers");
    assert!(report.is_ready(), "{report}");
    assert!(!report.to_string().contains(password), "{report}");
}

/// Asserts that `check` reports the missing permission of a pool, and that a call of this pool is
/// refused for this reason. Returns the text of the report.
pub(crate) async fn may_take_no_locks<S: Times>(pool: &LockPool) -> String {
    let report = pool.check().await.expect("the server answers");
    assert!(report.find("permission").is_some(), "{report}");
    let refused = pool.lock("denied").ttl(S::TTL).acquire().await;
    let refused = refused.map(drop).expect_err("it may not");
    assert_eq!(code(&refused), "permission");
    report.to_string()
}
