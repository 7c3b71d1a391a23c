//! Tests of `LockPoolBuilder::tls`, with which a program passes its own configuration of rustls.

use std::sync::Arc;

use leasehold::{LockPool, LockPoolBuilder};
use leasehold_tests::certificates::{Authority, Certificates, Identity};
use leasehold_tests::etcd::Etcd;
use leasehold_tests::pipe::Pipe;
use leasehold_tests::postgres::Postgres;
use leasehold_tests::sentinel::Setup;
use leasehold_tests::stores::NO_OUTAGE;
use leasehold_tests::tls::TlsServer;
use leasehold_tests::wait;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use super::refused;

/// The name in the servers' certificates.
const NAME: &str = "localhost";

const TTL: std::time::Duration = std::time::Duration::from_secs(10);

/// Returns a configuration that trusts `authority`, and presents the certificate `own`.
fn config(authority: &Authority, own: Option<&Identity>) -> Arc<ClientConfig> {
    let certificate = |pem: &str| {
        let certificate = CertificateDer::from_pem_slice(pem.as_bytes());
        certificate.expect("a certificate")
    };
    let mut roots = RootCertStore::empty();
    let added = roots.add(certificate(authority.pem()));
    added.expect("an authority");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider);
    let config = config.with_safe_default_protocol_versions();
    let config = config.expect("versions").with_root_certificates(roots);
    Arc::new(match own {
        None => config.with_no_client_auth(),
        Some(own) => {
            let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes());
            let chain = vec![certificate(&own.certificate)];
            let config = config.with_client_auth_cert(chain, key.expect("a key"));
            config.expect("they fit")
        }
    })
}

/// Fails if locks, `inspect` or `check` do not use the given configuration, or if a pool connects
/// with a wrong configuration. The server at `url` must require client certificates of `authority`.
async fn is_used(url: &str, authority: &Authority) {
    let own = authority.issue("service");
    let builder = || -> LockPoolBuilder { LockPool::builder().url(url).io_timeout(NO_OUTAGE) };
    let right = config(authority, Some(&own));
    let pool = builder().tls(Arc::clone(&right)).connect().await;
    let pool = pool.unwrap_or_else(|error| panic!("{url}: {error}"));
    let held = pool.lock("given").ttl(TTL).acquire().await.expect("free");
    let shown = pool.inspect("given").await.expect("it answers");
    assert!(shown.is_taken());
    held.release().await.expect("held");
    let report = pool.check().await.expect("it answers");
    assert!(report.is_ready(), "{report}");
    assert_eq!(report.find("plain-text"), None, "{report}");
    assert_eq!(report.find("unverified"), None, "{report}");

    let stranger = config(&Authority::new(), Some(&own));
    let (code, text) = refused(builder().tls(stranger).connect()).await;
    assert_eq!(code, "tls", "{text}");
    refused(builder().tls(config(authority, None)).connect()).await;
    let both = builder().tls(right).tls_ca(authority.pem());
    let (code, text) = refused(both.connect()).await;
    assert_eq!(code, "Config", "{text}");
    assert!(text.contains("`tls` replaces `tls_ca`"), "{text}");
}

#[tokio::test]
async fn redis_uses_it() {
    let authority = Authority::new();
    let server = TlsServer::start_for_clients_with_certificates(&authority, NAME);
    is_used(&server.url(NAME), &authority).await;
}

#[tokio::test]
async fn sentinel_uses_it() {
    let authority = Authority::new();
    let certificates = Certificates::new(&authority, "127.0.0.1");
    let deployment = Setup::new().tls(certificates).start();
    is_used(&deployment.url(), &authority).await;
}

#[tokio::test]
async fn postgres_uses_it() {
    let authority = Authority::new();
    let server = Postgres::with_tls(&authority, NAME, true);
    let url = server.migrated().url().replace("127.0.0.1", NAME);
    // Without a given configuration, `sslmode=require` verifies no certificate.
    is_used(&format!("{url}?sslmode=require"), &authority).await;
}

#[tokio::test]
async fn etcd_uses_it() {
    let authority = Authority::new();
    let server = Etcd::with_tls(&authority, NAME, true);
    is_used(&server.tls_url(NAME, "given"), &authority).await;
}

/// Fails if the kernel does not probe an idle connection to etcd, as without a given configuration.
#[tokio::test]
async fn etcd_is_probed() {
    let authority = Authority::new();
    let server = Etcd::with_tls(&authority, NAME, true);
    let url = server.tls_url(NAME, "probed");
    let port = url.split([':', '/']).nth(4).expect("a port");
    let pipe = Pipe::start(([127, 0, 0, 1], port.parse().expect("a port")).into());
    let url = url.replace(port, &pipe.address().port().to_string());
    let config = config(&authority, Some(&authority.issue("service")));
    let builder = LockPool::builder().url(&url).io_timeout(NO_OUTAGE);
    let pool = builder.tls(config).connect().await.expect("it answers");
    wait::until_async("they are probed", TTL, || pipe.are_clients_probed()).await;
    pool.shutdown(TTL).await;
}
