//! Tests of `sslmode`: encryption, and the requirements for the server's certificate.

use leasehold::{LockPool, LockPoolBuilder};
use leasehold_tests::certificates::Authority;
use leasehold_tests::postgres::{Database, Postgres};
use leasehold_tests::wait;

use super::{LONG, works};
use crate::deployments::refused;

/// Name in the certificate, which differs from the name in the URL.
const NAME: &str = "localhost";

fn pool(database: &Database, sslmode: &str) -> LockPoolBuilder {
    let url = format!("{}?sslmode={sslmode}", database.url());
    LockPool::builder().url(url).io_timeout(LONG)
}

/// Fails if a mode of `sslmode` verifies less or more than in other clients of PostgreSQL.
#[tokio::test]
async fn each_tls_mode_verifies_as_documented() {
    let (authority, other) = (Authority::new(), Authority::new());
    let server = Postgres::with_tls(&authority, NAME, false);
    let database = server.migrated();
    let (ours, theirs) = (Some(authority.pem()), Some(other.pem()));
    // The URL has 127.0.0.1, which the certificate does not name.
    for (sslmode, ca, connects) in [
        ("require", None, true),
        ("require", ours, true),
        ("require", theirs, false),
        ("verify-ca", ours, true),
        ("verify-ca", theirs, false),
        ("verify-ca", None, false),
        ("verify-full", ours, false),
        ("verify-full", theirs, false),
    ] {
        let builder = pool(&database, sslmode);
        let builder = match ca {
            Some(ca) => builder.tls_ca(ca),
            None => builder,
        };
        if connects {
            let pool = builder.connect().await;
            let pool = pool.unwrap_or_else(|error| panic!("{sslmode}: {error}"));
            works(&pool, "encrypted").await;
        } else {
            let (code, text) = refused(builder.connect()).await;
            assert_eq!(code, "tls", "{sslmode}: {text}");
            assert!(text.contains("`tls_ca`"), "{sslmode}: {text}");
        }
    }
    let local = database.url().replace("127.0.0.1", NAME);
    let builder = LockPool::builder().url(format!("{local}?sslmode=verify-full"));
    let pool = builder
        .io_timeout(LONG)
        .tls_ca(authority.pem())
        .connect()
        .await;
    let pool = pool.unwrap_or_else(|error| panic!("{error}"));
    works(&pool, "named").await;
    let probe = database.probe_over_socket("lock:");
    let encrypted = "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name LIKE 'leasehold:%'";
    assert_eq!(probe.value(encrypted), "t");
    let report = pool.check().await.expect("it answers");
    assert!(report.is_ready(), "{report}");
    assert_eq!(report.find("plain-text"), None, "{report}");
}

/// Fails if a lost connection is replaced by a connection in plain text, or is not replaced.
#[tokio::test]
async fn a_replaced_connection_is_encrypted_too() {
    let authority = Authority::new();
    let server = Postgres::with_tls(&authority, "127.0.0.1", false);
    let database = server.migrated();
    let pool = pool(&database, "verify-full").tls_ca(authority.pem());
    let pool = pool.connect().await;
    let pool = pool.unwrap_or_else(|error| panic!("{error}"));
    let probe = database.probe_over_socket("lock:");
    for number in 0..3 {
        works(&pool, &format!("before-{number}")).await;
        let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name LIKE 'leasehold:%'";
        assert_ne!(probe.value(end), "0");
        works(&pool, &format!("after-{number}")).await;
    }
    let plain = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name LIKE 'leasehold:%' AND NOT ssl";
    assert_eq!(probe.value(plain), "0");
}

#[tokio::test]
async fn a_client_certificate_is_shown() {
    let authority = Authority::new();
    let server = Postgres::with_tls(&authority, "127.0.0.1", true);
    let database = server.migrated();
    let builder = || pool(&database, "verify-full").tls_ca(authority.pem());
    let mine = authority.issue("client");
    let pool = builder().tls_client(mine.certificate, mine.key);
    let pool = pool.connect().await;
    let pool = pool.unwrap_or_else(|error| panic!("{error}"));
    works(&pool, "known").await;
    let (_, text) = refused(builder().connect()).await;
    assert!(text.contains("certificate"), "{text}");
    let foreign = Authority::new().issue("client");
    let builder = builder().tls_client(foreign.certificate, foreign.key);
    let (code, text) = refused(builder.connect()).await;
    assert_eq!(code, "tls", "{text}");
    assert!(text.contains("`tls_client`"), "{text}");
}

/// Fails if a mistake in the options for TLS is reported as a network failure, or leads to a
/// connection in plain text.
#[tokio::test]
async fn mistakes_are_reported() {
    let authority = Authority::new();
    let plain = Postgres::shared().migrated();
    let mine = authority.issue("client");
    let without = LockPool::builder().url(plain.url());
    for (what, builder, expected) in [
        ("no TLS", pool(&plain, "require"), "does not support TLS"),
        (
            "certificates without TLS",
            without.tls_ca(authority.pem()),
            "`sslmode`",
        ),
        (
            "no PEM",
            pool(&plain, "verify-ca").tls_ca("certificate"),
            "PEM",
        ),
        (
            "a certificate instead of the key",
            pool(&plain, "require").tls_client(mine.certificate.clone(), mine.certificate),
            "PEM",
        ),
    ] {
        let (code, text) = refused(builder.connect()).await;
        assert!(["Config", "tls"].contains(&&*code), "{what}: {code}");
        assert!(text.contains(expected), "{what}: {text}");
    }
    // A Unix socket has no TLS and needs none, so `verify-full` has no effect.
    let socket = format!("{}?sslmode=verify-full", plain.socket_url());
    let pool = wait::connected(LockPool::builder().url(socket)).await;
    works(&pool, "socket").await;
}
