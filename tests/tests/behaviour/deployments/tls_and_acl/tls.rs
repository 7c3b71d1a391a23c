//! Tests of `rediss://`. Nothing must be sent to an unverified server.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use leasehold::{LockPool, LockPoolBuilder};
use leasehold_tests::certificates::{Authority, Identity};
use leasehold_tests::server::ServerOptions;
use leasehold_tests::tls::TlsServer;
use leasehold_tests::wait;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection};

use super::{IO_TIMEOUT, PATIENCE, works};
use crate::deployments::refused;

const HOST: &str = "127.0.0.1";

fn patient(url: impl Into<String>) -> LockPoolBuilder {
    LockPool::builder().url(url).io_timeout(IO_TIMEOUT)
}

/// Fails if TLS does not work, or if `check` reports plain text. Also fails if the pool sets the
/// TLS provider of the whole process, which only the program may choose.
#[tokio::test]
async fn a_server_certified_by_a_known_authority_is_trusted() {
    let authority = Authority::new();
    let server = TlsServer::start(&authority, "localhost");
    let url = server.url("localhost");
    let pool = patient(url).tls_ca(authority.pem());
    assert!(!format!("{pool:?}").contains("CERTIFICATE"), "{pool:?}");
    let pool = pool
        .connect()
        .await
        .unwrap_or_else(|error| panic!("{error}"));
    works(&pool, "k").await.expect("it works");
    let report = pool.check().await.expect("it answers");
    assert!(report.is_ready(), "{report}");
    assert_eq!(report.find("plain-text"), None, "{report}");
    assert!(CryptoProvider::get_default().is_none());
}

/// A TLS server answers with an endless line. Fails if the pool limits the length of answers only
/// without TLS. In an earlier version, such a line kept a caller waiting for minutes.
#[tokio::test]
async fn an_endless_answer_over_tls_is_refused() {
    let authority = Authority::new();
    let url = format!("rediss://{HOST}:{}/", endless(&authority.issue(HOST)));
    let started = Instant::now();
    let builder = LockPool::builder().url(url).tls_ca(authority.pem());
    let (code, text) = refused(builder.io_timeout(PATIENCE).connect()).await;
    assert_eq!(code, "protocol", "{text}");
    assert!(text.contains("does not end within 65536 bytes"), "{text}");
    assert!(started.elapsed() < PATIENCE, "{:?}", started.elapsed());
}

/// Returns the configuration of a TLS server with this certificate.
fn config(identity: &Identity) -> Arc<ServerConfig> {
    let certificate = CertificateDer::from_pem_slice(identity.certificate.as_bytes());
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider);
    let config = config.with_safe_default_protocol_versions();
    let config = config.expect("versions").with_no_client_auth();
    let chain = vec![certificate.expect("a certificate")];
    let config = config.with_single_cert(chain, key.expect("a key"));
    Arc::new(config.expect("they fit"))
}

/// Returns the port of a server that answers the first request with a line of 200 MB.
fn endless(identity: &Identity) -> u16 {
    let config = config(identity);
    let listener = TcpListener::bind((HOST, 0)).expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    std::thread::spawn(move || {
        for mut client in listener.incoming().map_while(Result::ok) {
            let mut state = ServerConnection::new(Arc::clone(&config)).expect("a state");
            let mut stream = rustls::Stream::new(&mut state, &mut client);
            let asked = stream.read(&mut [0; 4096]).is_ok_and(|count| count > 0);
            let mut more = asked && stream.write_all(b"+").is_ok();
            for _ in 0..200 {
                more = more && stream.write_all(&vec![b'x'; 1_000_000]).is_ok();
            }
        }
    });
    port
}

/// A TLS server that records all bytes that it receives, before and after their decryption. It
/// answers each request with an error.
pub(super) struct Impostor {
    pub(super) port: u16,
    received: Arc<Mutex<Vec<u8>>>,
    /// Number of open connections.
    open: Arc<AtomicUsize>,
}

impl Impostor {
    pub(super) fn start(identity: &Identity) -> Self {
        let config = config(identity);
        let listener = TcpListener::bind((HOST, 0)).expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let received = Arc::<Mutex<Vec<u8>>>::default();
        let open = Arc::<AtomicUsize>::default();
        let impostor = Self {
            port,
            received: Arc::clone(&received),
            open: Arc::clone(&open),
        };
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let (received, open) = (Arc::clone(&received), Arc::clone(&open));
                let config = Arc::clone(&config);
                open.fetch_add(1, Ordering::SeqCst);
                std::thread::spawn(move || {
                    record(config, client, &received);
                    open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        impostor
    }

    /// Waits until all connections have ended. Then returns true if the server has received `text`.
    pub(super) async fn has_received(&self, text: &str) -> bool {
        let ended = || self.open.load(Ordering::SeqCst) == 0;
        wait::until_async("all connections end", PATIENCE, ended).await;
        let received = self.received.lock().expect("no panic");
        let mut parts = received.windows(text.len());
        parts.any(|part| part == text.as_bytes())
    }
}

fn record(config: Arc<ServerConfig>, client: TcpStream, received: &Mutex<Vec<u8>>) {
    let mut state = ServerConnection::new(config).expect("a state");
    let mut recorder = Recorder { client, received };
    let mut stream = rustls::Stream::new(&mut state, &mut recorder);
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut bytes) {
        let mut received = received.lock().expect("no panic");
        received.extend_from_slice(&bytes[..count]);
        drop(received);
        if stream.write_all(b"-ERR refused\r\n").is_err() {
            return;
        }
    }
}

/// A connection that records its encrypted bytes.
struct Recorder<'a> {
    client: TcpStream,
    received: &'a Mutex<Vec<u8>>,
}

impl Read for Recorder<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        let count = self.client.read(bytes)?;
        let mut received = self.received.lock().expect("no panic");
        received.extend_from_slice(&bytes[..count]);
        Ok(count)
    }
}

impl Write for Recorder<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.client.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.client.flush()
    }
}

/// Fails if a server without a valid certificate receives the password. At the end, the test checks
/// that the same server receives it from a pool that trusts the certificate.
#[tokio::test]
async fn only_a_certified_server_gets_the_password() {
    let (authority, other) = (Authority::new(), Authority::new());
    let impostor = Impostor::start(&authority.issue(HOST));
    let url = |scheme: &str, path: &str| {
        let port = impostor.port;
        format!("{scheme}://app:hunter2@{HOST}:{port}/{path}")
    };
    for (scheme, path) in [
        ("rediss", ""),
        ("rediss-cluster", ""),
        ("rediss-sentinel", "shop?sentinel_password=hunter2"),
        ("etcds", "locks"),
    ] {
        let builder = patient(url(scheme, path)).tls_ca(other.pem());
        let (code, text) = refused(builder.connect()).await;
        assert_eq!(code, "tls", "{scheme}: {text}");
        assert!(!impostor.has_received("hunter2").await, "{scheme}");
    }
    let known = patient(url("rediss", "")).tls_ca(authority.pem());
    let answered = known.connect().await;
    assert!(answered.is_err(), "{answered:?}");
    assert!(impostor.has_received("hunter2").await, "it is not recorded");
}

/// The pool gets the addresses of a cluster's nodes from one node. Fails if the pool uses plain
/// text, or a plain-text port, with such an address.
#[tokio::test]
async fn the_nodes_of_a_cluster_are_reached_by_tls() {
    let authority = Authority::new();
    let (options, _bus) = ServerOptions::new().append_only().cluster_node();
    // Without this option the nodes announce their plain-text ports.
    let options = options.option("tls-cluster", &["yes"]);
    let node = TlsServer::start_with(&authority, HOST, options);
    let probe = node.server.probe();
    probe.run::<()>(
        redis::cmd("CLUSTER")
            .arg("ADDSLOTSRANGE")
            .arg(0)
            .arg(16_383),
    );
    wait::until_async("it serves", PATIENCE, || {
        let state: String = probe.run(redis::cmd("CLUSTER").arg("INFO"));
        state.contains("cluster_state:ok")
    })
    .await;
    let builder = patient(format!("rediss-cluster://{HOST}:{}", node.port()));
    let pool = builder.clone().tls_ca(authority.pem()).connect().await;
    let pool = pool.unwrap_or_else(|error| panic!("{error}"));
    works(&pool, "k").await.expect("it works");
    let report = pool.check().await.expect("it answers");
    assert!(report.is_ready(), "{report}");
    assert_eq!(report.find("plain-text"), None, "{report}");
    let (code, text) = refused(builder.connect()).await;
    assert_eq!(code, "tls", "{text}");
}

/// Fails if the pool trusts a server without a valid certificate, or sends a script to it. The
/// certificate is from an authority that the pool does not trust, or has another name.
#[tokio::test]
async fn a_server_without_a_valid_certificate_is_refused() {
    let (authority, other) = (Authority::new(), Authority::new());
    let server = TlsServer::start(&authority, "localhost");
    let local = server.url("localhost");
    let cases = [
        ("the system's", patient(&local)),
        ("another", patient(&local).tls_ca(other.pem())),
        (
            "another name",
            patient(server.url(HOST)).tls_ca(authority.pem()),
        ),
    ];
    for (what, builder) in cases {
        let (code, text) = refused(builder.connect()).await;
        assert_eq!(code, "tls", "{what}: {text}");
        for fragment in ["not trusted", "`tls_ca`", "rediss://"] {
            assert!(
                text.contains(fragment),
                "{what}: no {fragment:?} in {text:?}"
            );
        }
    }
    let commands: String = server
        .server
        .probe()
        .run(redis::cmd("INFO").arg("commandstats"));
    assert!(!commands.contains("cmdstat_script"), "{commands}");
}

#[tokio::test]
async fn a_client_certificate_is_shown() {
    let authority = Authority::new();
    let server = TlsServer::start_for_clients_with_certificates(&authority, HOST);
    let builder = || patient(server.url(HOST)).tls_ca(authority.pem());
    let mine = authority.issue("client");
    let pool = builder().tls_client(mine.certificate, mine.key);
    let pool = pool
        .connect()
        .await
        .unwrap_or_else(|error| panic!("{error}"));
    works(&pool, "k").await.expect("it works");
    let foreign = Authority::new().issue("client");
    let cases = [
        ("none", builder()),
        (
            "another's",
            builder().tls_client(foreign.certificate, foreign.key),
        ),
    ];
    for (what, builder) in cases {
        let (code, text) = refused(builder.connect()).await;
        assert_eq!(code, "tls", "{what}: {text}");
        assert!(text.contains("`tls_client`"), "{what}: {text}");
    }
}

/// Fails if a mistake is reported as a network failure, or switches the verification off.
#[tokio::test]
async fn mistakes_are_reported() {
    let authority = Authority::new();
    let server = TlsServer::start(&authority, HOST);
    let url = server.url(HOST);
    let plain = format!("rediss://{HOST}:{}/", server.server.port());
    let builder = LockPool::builder;
    let mine = authority.issue("client");
    let cases = [
        (
            "insecure",
            builder().url(format!("{url}#insecure")),
            "tls_ca",
        ),
        ("no PEM", builder().url(&url).tls_ca("certificate"), "PEM"),
        (
            "half a PEM",
            builder()
                .url(&url)
                .tls_ca("-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n"),
            "PEM",
        ),
        (
            "a certificate instead of the key",
            builder()
                .url(&url)
                .tls_client(mine.certificate.clone(), mine.certificate),
            "PEM",
        ),
        (
            "certificates without TLS",
            builder().url(server.server.url()).tls_ca(authority.pem()),
            "rediss://",
        ),
        (
            "certificates without a server",
            builder().url("memory://").tls_ca(authority.pem()),
            "rediss://",
        ),
        (
            "certificates with Sentinels",
            builder()
                .url("redis-sentinel://127.0.0.1/shop")
                .tls_ca(authority.pem()),
            "rediss://",
        ),
        (
            "no TLS on this port",
            builder().url(plain).tls_ca(authority.pem()),
            "speaks TLS on this port",
        ),
    ];
    for (what, builder, expected) in cases {
        let (code, text) = refused(builder.connect()).await;
        assert!(
            ["Config", "timeout"].contains(&&*code),
            "{what}: {code}: {text}"
        );
        assert!(text.contains(expected), "{what}: {text}");
    }
}
