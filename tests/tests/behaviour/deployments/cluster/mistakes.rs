//! Tests that bad input and misuse return an error that names the remedy.

use leasehold::{LockError, LockPool};
use leasehold_tests::cluster::Setup;
use leasehold_tests::server::Server;

use super::{LONG, SHARED, TTL, code, connect, take};

async fn refused(url: &str) -> LockError {
    // The timeout is long, because a timeout on a busy machine would hide the expected error.
    let builder = LockPool::builder().url(url).io_timeout(LONG);
    match builder.connect().await {
        Ok(pool) => panic!("connected: {pool:?}"),
        Err(error) => error,
    }
}

/// The URL of the pool names one node of a cluster, with the scheme of a single server. Fails if
/// `check` finds no fault, or if the finding or an error does not name the right scheme.
#[tokio::test]
async fn a_single_server_is_not_accepted_as_a_cluster() {
    let pool = connect(&SHARED.server(0).url()).await;
    let report = pool.check().await.expect("it can be asked");
    let finding = report.find("cluster").expect("it is a node");
    assert!(finding.text.contains("redis-cluster://"), "{finding}");
    assert!(!report.is_ready());
    let error = pool.lock("alone").ttl(TTL).acquire().await;
    let error = error.expect_err("a key of every lock is elsewhere");
    assert!(error.to_string().contains("redis-cluster://"), "{error}");
}

/// Fails if a server outside of any cluster is accepted as a node. Also fails if one such server
/// among the seeds prevents the connection to the others.
#[tokio::test]
async fn a_server_outside_of_a_cluster_is_refused() {
    let server = Server::start();
    let url = format!("redis-cluster://127.0.0.1:{}", server.port());
    let error = refused(&url).await;
    assert_eq!(code(&error), "cluster");
    assert!(error.to_string().contains("redis://host:port"), "{error}");
    let seeds = format!("{url},{}", &SHARED.url()["redis-cluster://".len()..]);
    let pool = connect(&seeds).await;
    take(&pool, "one-seed-is-wrong")
        .await
        .release()
        .await
        .expect("held");
}

#[tokio::test]
async fn an_unreachable_cluster_is_reported() {
    let error = refused("redis-cluster://127.0.0.1:1,127.0.0.1:2").await;
    assert_eq!(code(&error), "io");
    assert!(error.to_string().contains("127.0.0.1"), "{error}");
}

/// Fails if the pool does not send the password to all nodes, or shows the password.
#[tokio::test(flavor = "multi_thread")]
async fn passwords() {
    let cluster = Setup::new().password("pass-1").start();
    let url = |password: &str| cluster.url().replace("://", &format!("://{password}@"));
    let pool = connect(&url(":pass-1")).await;
    for key in 0..10 {
        take(&pool, &format!("k:{key}"))
            .await
            .release()
            .await
            .expect("held");
    }
    let report = pool.check().await.expect("it can be asked");
    assert!(report.is_ready(), "{report}");
    assert!(!format!("{pool:?} {report:?}").contains("pass-1"));
    for (password, expected) in [(":pass-2", "WRONGPASS"), ("", "NOAUTH")] {
        let url = if password.is_empty() {
            cluster.url()
        } else {
            url(password)
        };
        let error = refused(&url).await;
        assert_eq!(code(&error), expected, "{error}");
        assert!(!error.to_string().contains("pass-2"), "{error}");
    }
}
