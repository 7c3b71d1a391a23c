//! Certificates for `rediss://`.

use std::fmt;
use std::io;
use std::sync::{Arc, OnceLock};

use redis::{Client, ClientTlsConfig, ConnectionAddr, ConnectionInfo, TlsCertificates};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::error::LockError;

/// Whom to trust and what to show, as the builder was told. Shows nothing of it.
#[derive(Clone, Default)]
pub(crate) struct Tls {
    /// Trusted instead of the system's authorities.
    pub(crate) ca: Option<Vec<u8>>,
    /// Certificate and key.
    pub(crate) client: Option<(Vec<u8>, Vec<u8>)>,
    /// Made by the first connection, which a pool opens before it has an engine: to read the system's
    /// authorities takes long. The certificates do not change from then on.
    config: Arc<OnceLock<Arc<ClientConfig>>>,
}

impl Tls {
    /// The same certificates, without what was made of those that a clone of this has or had.
    pub(crate) fn afresh(&self) -> Self {
        Self {
            config: Arc::default(),
            ..self.clone()
        }
    }

    fn is_default(&self) -> bool {
        self.ca.is_none() && self.client.is_none()
    }

    /// Refuses certificates for a store without TLS: somebody believes to be safe who is not.
    pub(crate) fn refuse(&self) -> Result<(), LockError> {
        if self.is_default() {
            return Ok(());
        }
        Err(LockError::config(
            "`tls_ca` and `tls_client` work with `rediss://`, `rediss-sentinel://` and `rediss-cluster://` only; change the URL, or leave them out",
        ))
    }

    /// `info` with these certificates. The server's certificate and name are verified in any case.
    pub(crate) fn apply(&self, info: ConnectionInfo) -> Result<ConnectionInfo, LockError> {
        if !matches!(info.addr(), ConnectionAddr::TcpTls { .. }) {
            self.refuse()?;
        }
        if self.is_default() {
            return Ok(info);
        }
        let client = self.client.as_ref();
        let certificates = TlsCertificates {
            client_tls: client.map(|(client_cert, client_key)| ClientTlsConfig {
                client_cert: client_cert.clone(),
                client_key: client_key.clone(),
            }),
            root_cert: self.ca.clone(),
        };
        for (what, pem) in [
            ("tls_ca", self.ca.as_ref()),
            ("tls_client", client.map(|pair| &pair.0)),
        ] {
            if pem.is_some_and(|pem| !is_certificate(pem)) {
                return Err(misread(what));
            }
        }
        let client = Client::build_with_tls(info, certificates);
        let client = client.map_err(|_| misread("tls_client` or `tls_ca"))?;
        Ok(client.get_connection_info().clone())
    }
}

impl Tls {
    /// Shakes hands with the server at the other end of `stream`, which must prove that it is
    /// `host`.
    pub(crate) async fn reach<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        host: &str,
        stream: S,
    ) -> io::Result<TlsStream<S>> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let config = if let Some(config) = self.config.get() {
            config
        } else {
            let config = Arc::new(self.make_config()?);
            self.config.get_or_init(|| config)
        };
        TlsConnector::from(Arc::clone(config))
            .connect(name, stream)
            .await
    }

    fn make_config(&self) -> io::Result<ClientConfig> {
        let config = ClientConfig::builder().with_root_certificates(self.authorities()?);
        let Some((certificate, key)) = &self.client else {
            return Ok(config.with_no_client_auth());
        };
        let certificates = CertificateDer::pem_slice_iter(certificate);
        let certificates = certificates.collect::<Result<_, _>>();
        let certificates = certificates.map_err(io::Error::other)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(io::Error::other)?;
        let config = config.with_client_auth_cert(certificates, key);
        config.map_err(io::Error::other)
    }

    fn authorities(&self) -> io::Result<RootCertStore> {
        let mut store = RootCertStore::empty();
        let Some(ca) = &self.ca else {
            let mut system = rustls_native_certs::load_native_certs();
            if let Some(error) = system.errors.pop() {
                return Err(io::Error::other(error));
            }
            for certificate in system.certs {
                store.add(certificate).map_err(io::Error::other)?;
            }
            return Ok(store);
        };
        for certificate in CertificateDer::pem_slice_iter(ca) {
            let certificate = certificate.map_err(io::Error::other)?;
            store.add(certificate).map_err(io::Error::other)?;
        }
        Ok(store)
    }
}

/// Of a text without certificates the crate makes an authority that trusts nobody.
fn is_certificate(pem: &[u8]) -> bool {
    let begin = b"-----BEGIN CERTIFICATE-----";
    pem.windows(begin.len()).any(|part| part == begin)
}

fn misread(what: &str) -> LockError {
    LockError::config(format!(
        "what was given to `{what}` cannot be read; it takes the content of PEM files, as text that has `-----BEGIN …-----` lines"
    ))
}

/// The crate `redis` panics without a provider for the whole process. The program's own choice stands, if it was made before
/// the pool is built.
pub(crate) fn choose_provider() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // An error says that somebody was faster, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}
