//! Tests of the URL, of users, of unsupported features, and of the findings of `check`.

use leasehold::{Finding, LockPool};
use leasehold_tests::etcd::Etcd;
use leasehold_tests::session_server::SessionServer as _;

use crate::deployments::session_servers::connecting::{
    self, code, may_take_locks, may_take_no_locks,
};
use crate::deployments::session_servers::{LONG, on_one_thread};

on_one_thread! { Etcd, connecting:
    refusals_name_the_holder,
    a_closed_port_is_unavailable,
    a_downgraded_lock_stays_exclusive,
    the_shortest_and_the_longest_ttl_work,
    keys_with_special_characters_work,
}

/// Fails if an unsupported feature is ignored, or if the error does not name etcd.
#[tokio::test]
async fn unsupported_features_are_refused() {
    let url = Etcd::shared().url("refused");
    let wrong = [format!("{url}?replicas=1")];
    connecting::unsupported_features_are_refused::<Etcd>(&url, &wrong).await;
}

/// Fails if `check` does not report a single server, a missing member, or a member of another
/// cluster.
#[tokio::test]
async fn findings() {
    // The finding about the server's version depends on the machine, so it is ignored.
    let counts = |finding: &Finding| finding.code != "version";
    let apart = || [Etcd::start(), Etcd::start()];
    let report = connecting::findings(counts, apart, "cluster").await;
    assert!(!report.is_ready(), "{report}");
}

/// Fails if the error for a wrong password shows the password or has another code than
/// `permission`. Also fails if a user with the role from the documentation page for etcd cannot
/// take locks under its prefix, or can take locks elsewhere.
#[tokio::test]
async fn users_need_only_the_documented_rights() {
    let server = Etcd::start();
    let gateway = server.gateway();
    gateway.add_user("root", "root", "root");
    gateway.add_role("locks", "shop/");
    gateway.add_user("service", "hunter2", "locks");
    gateway.enable_users();
    let url = |user: &str, prefix: &str| {
        server
            .url(prefix)
            .replace("etcd://", &format!("etcd://{user}@"))
    };
    // The timeout is long, because password authentication takes long.
    let patient = |url: String| LockPool::builder().url(url).io_timeout(LONG).connect();
    let wrong = patient(url("service:Hunter3", "shop")).await;
    let wrong = wrong.map(drop).expect_err("it is wrong");
    assert_eq!(code(&wrong), "permission", "{wrong}");
    assert!(!wrong.to_string().contains("Hunter3"), "{wrong}");

    let pool = patient(url("service:hunter2", "shop")).await;
    let pool = pool.expect("it is right");
    may_take_locks::<Etcd>(&pool, "hunter2").await;

    let elsewhere = patient(url("service:hunter2", "other")).await;
    let elsewhere = elsewhere.expect("it may introduce itself");
    may_take_no_locks::<Etcd>(&elsewhere).await;
}
