//! Tests of `rediss-sentinel://`. The pool and its servers, including the Sentinels, verify each
//! other.

use std::time::Duration;

use leasehold::{LockPool, LockPoolBuilder};
use leasehold_tests::certificates::{Authority, Certificates};
use leasehold_tests::sentinel::{Deployment, Setup};
use leasehold_tests::tls::TlsServer;

use super::tls::Impostor;
use super::{PATIENCE, TTL};
use crate::deployments::refused;

/// Time limit for an answer. It is long, because six servers that start together slow down a small
/// machine.
const IO_TIMEOUT: Duration = Duration::from_secs(10);
const HOST: &str = "127.0.0.1";

fn deployment(authority: &Authority) -> Deployment {
    let certificates = Certificates::new(authority, HOST);
    Setup::new()
        .passwords("one", "two")
        .tls(certificates)
        .start()
}

fn builder(url: &str) -> LockPoolBuilder {
    LockPool::builder().url(url).io_timeout(IO_TIMEOUT)
}

/// Takes and releases a lock. Checks that the lock was on the current master.
async fn works(pool: &LockPool, deployment: &Deployment) {
    let taken = pool.lock("k").ttl(TTL).wait(PATIENCE).acquire().await;
    let guard = taken.unwrap_or_else(|error| panic!("{error}"));
    assert!(deployment.master().probe().value("lock:k").is_some());
    guard.release().await.expect("released");
}

fn trusting(url: &str, authority: &Authority) -> LockPoolBuilder {
    let mine = authority.issue("client");
    builder(url)
        .tls_ca(authority.pem())
        .tls_client(mine.certificate, mine.key)
}

/// Fails if the pool uses plain text with a Sentinel or a server, before or after a fail-over. Also
/// fails if the pool trusts a server without a valid certificate.
#[tokio::test(flavor = "multi_thread")]
async fn sentinels_and_servers_are_reached_by_tls() {
    let authority = Authority::new();
    let mut deployment = deployment(&authority);
    let url = deployment.url();
    let pool = trusting(&url, &authority).connect().await;
    let pool = pool.unwrap_or_else(|error| panic!("{error}"));
    let shown = format!("{pool:?}");
    assert!(shown.contains("rediss-sentinel://"), "{shown}");
    works(&pool, &deployment).await;
    let report = pool.check().await.expect("it answers");
    assert_eq!(report.find("plain-text"), None, "{report}");

    let other = Authority::new();
    let foreign = other.issue("client");
    let mine = authority.issue("client");
    let by_name = url.replace(HOST, "localhost");
    let builder = || builder(&url);
    for (what, builder, expected) in [
        (
            "the system's authorities",
            builder().tls_client(mine.certificate, mine.key),
            "`tls_ca`",
        ),
        ("another authority", trusting(&url, &other), "`tls_ca`"),
        ("another name", trusting(&by_name, &authority), "`tls_ca`"),
        (
            "no certificate of the client's",
            builder().tls_ca(authority.pem()),
            "`tls_client`",
        ),
        (
            "another's certificate",
            builder()
                .tls_ca(authority.pem())
                .tls_client(foreign.certificate, foreign.key),
            "`tls_client`",
        ),
    ] {
        let (code, text) = refused(builder.connect()).await;
        assert_eq!(code, "tls", "{what}: {text}");
        assert!(
            text.contains(expected),
            "{what}: no {expected:?} in {text:?}"
        );
    }

    let dead = deployment.fail_over();
    works(&pool, &deployment).await;
    drop(dead);
}

/// Fails if the pool trusts a master without a valid certificate, or sends the password to it,
/// because it trusts the Sentinel that names this master.
#[tokio::test(flavor = "multi_thread")]
async fn a_master_without_a_valid_certificate_is_refused() {
    let (authority, other) = (Authority::new(), Authority::new());
    let foreign = TlsServer::start(&other, HOST);
    let certificates = Certificates::new(&authority, HOST);
    let deployment = Setup::new().tls(certificates).start_naming(foreign.server);
    let (code, text) = refused(trusting(&deployment.url(), &authority).connect()).await;
    assert_eq!(code, "tls", "{text}");
    assert!(text.contains("not trusted"), "{text}");
    let statistics = redis::cmd("INFO").arg("commandstats").to_owned();
    let commands: String = deployment.master().probe().run(&statistics);
    assert!(!commands.contains("cmdstat_script"), "{commands}");

    let impostor = Impostor::start(&other.issue(HOST));
    let certificates = Certificates::new(&authority, HOST);
    let setup = Setup::new().passwords("hunter2", "hunter3");
    let deployment = setup.tls(certificates).start_naming_port(impostor.port);
    let (code, text) = refused(trusting(&deployment.url(), &authority).connect()).await;
    assert_eq!(code, "tls", "{text}");
    // The Sentinel connects to its master again and again.
    drop(deployment);
    assert!(!impostor.has_received("hunter2").await);
}

/// Fails if the URL can switch off the verification, or if an error does not name the mistake.
#[tokio::test(flavor = "multi_thread")]
async fn mistakes_are_reported() {
    let authority = Authority::new();
    let deployment = deployment(&authority);
    let url = deployment.url();
    let plain = deployment.ports().map(|port| format!("{HOST}:{port}"));
    let plain: Vec<_> = plain.collect();
    let plain = format!("rediss-sentinel://{}/shop", plain.join(","));
    for (what, url, expected) in [
        ("insecure", format!("{url}#insecure"), "rediss-sentinel://"),
        (
            "insecure database",
            format!("{url}&db=0#insecure"),
            "rediss-sentinel://",
        ),
        ("no TLS on these ports", plain, "TLS on this port"),
        (
            "certificates without TLS",
            url.replace("rediss", "redis"),
            "rediss-sentinel://",
        ),
    ] {
        let (_, text) = refused(trusting(&url, &authority).connect()).await;
        assert!(
            text.contains(expected),
            "{what}: no {expected:?} in {text:?}"
        );
    }
    let in_the_clear = builder(&url.replace("rediss", "redis"));
    let (code, text) = refused(in_the_clear.connect()).await;
    assert!(["sentinel", "io"].contains(&&*code), "{code}: {text}");
}
