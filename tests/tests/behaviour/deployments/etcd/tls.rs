//! Tests of `etcds://`: encryption, and the certificates that a member must present.

use leasehold::{LockPool, LockPoolBuilder};
use leasehold_tests::certificates::Authority;
use leasehold_tests::etcd::Etcd;
use leasehold_tests::session_server::SessionServer as _;

use crate::deployments::refused;
use crate::deployments::session_servers::{LONG, works};

/// The name in the certificate, and another name of the same machine.
const NAME: &str = "localhost";
const OTHER: &str = "127.0.0.1";

fn pool(url: String) -> LockPoolBuilder {
    LockPool::builder().url(url).io_timeout(LONG)
}

/// Fails if the pool trusts a member whose certificate is from an unknown authority, or does not
/// contain the host name of the URL.
#[tokio::test]
async fn a_member_must_prove_its_name() {
    let (authority, other) = (Authority::new(), Authority::new());
    let mut server = Etcd::with_tls(&authority, NAME, false);
    for (host, ca) in [
        (NAME, None),
        (NAME, Some(other.pem())),
        (OTHER, Some(authority.pem())),
    ] {
        let builder = pool(server.tls_url(host, "proof"));
        let builder = match ca {
            Some(ca) => builder.tls_ca(ca),
            None => builder,
        };
        let (code, text) = refused(builder.connect()).await;
        assert_eq!(code, "tls", "{host}: {text}");
        assert!(text.contains("`tls_ca`"), "{host}: {text}");
    }
    let builder = pool(server.tls_url(NAME, "proof")).tls_ca(authority.pem());
    let proven = builder.connect().await.expect("it is certified");
    works::<Etcd>(&proven, "proven").await;
    let lock = proven.inspect("proven").await.expect("it answers");
    assert!(!lock.is_taken());
    let report = proven.check().await.expect("it answers");
    assert!(report.is_ready(), "{report}");
    assert_eq!(report.find("plain-text"), None, "{report}");
    server.restart();
    works::<Etcd>(&proven, "again").await;
}

/// Fails if the pool does not present its certificate on request, or if the server accepts a wrong
/// certificate.
#[tokio::test]
async fn a_client_presents_its_certificate() {
    let (authority, other) = (Authority::new(), Authority::new());
    let server = Etcd::with_tls(&authority, NAME, true);
    let builder = || pool(server.tls_url(NAME, "shown")).tls_ca(authority.pem());
    for stranger in [None, Some(other.issue("stranger"))] {
        let builder = match &stranger {
            Some(own) => builder().tls_client(&*own.certificate, &*own.key),
            None => builder(),
        };
        let (code, text) = refused(builder.connect()).await;
        assert_eq!(code, "tls", "{text}");
        assert!(text.contains("`tls_client`"), "{text}");
    }
    let own = authority.issue("service");
    let builder = builder().tls_client(&*own.certificate, &*own.key);
    let known = builder.connect().await.expect("its certificate is right");
    works::<Etcd>(&known, "known").await;
}

/// Fails if certificates for a URL without TLS are ignored, because users would rely on a missing
/// protection. Also fails if a certificate or a key that is not PEM is accepted.
#[tokio::test]
async fn certificates_without_tls_are_refused() {
    let authority = Authority::new();
    let server = Etcd::shared();
    let (code, text) = refused(pool(server.url("plain")).tls_ca(authority.pem()).connect()).await;
    assert_eq!(code, "Config", "{text}");
    assert!(text.contains("`etcds://`"), "{text}");
    for (ca, client) in [("no PEM", None), (authority.pem(), Some("no PEM"))] {
        let builder = pool("etcds://localhost:1".to_owned()).tls_ca(ca);
        let builder = match client {
            Some(key) => builder.tls_client(authority.pem(), key),
            None => builder,
        };
        let (code, text) = refused(builder.connect()).await;
        assert_eq!(code, "Config", "{text}");
        assert!(text.contains("PEM"), "{text}");
    }
}
