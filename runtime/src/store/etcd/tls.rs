//! TLS between the pool and a member of an etcd cluster.

use std::io;
use std::sync::Arc;

use http::Uri;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::transport::{Channel, ClientTlsConfig, Endpoint, Error, Identity};
use tower::{Service as _, service_fn};

use super::{PROBE, PROBE_EVERY, PROBES};
use crate::error::LockError;
use crate::store::tls::{Tls, misread};

/// Application protocol of gRPC.
const HTTP2: &[u8] = b"h2";

/// The TLS settings for all members.
#[derive(Clone)]
pub(super) enum MemberTls {
    /// Certificates that tonic uses.
    Certificates(Box<ClientTlsConfig>),
    /// The program's rustls configuration. tonic does not accept one, so `reach` opens the
    /// encrypted streams for it.
    Given(Arc<ClientConfig>),
}

impl MemberTls {
    /// Reads the certificates.
    pub(super) fn new(tls: &Tls) -> Result<Self, LockError> {
        tls.check()?;
        if let Some(given) = &tls.given {
            let mut config = ClientConfig::clone(given);
            config.alpn_protocols = vec![HTTP2.to_vec()];
            return Ok(Self::Given(Arc::new(config)));
        }
        let authorities = tls.authorities().map_err(|error| {
            LockError::config(format!(
                "the trusted certificate authorities cannot be read: {error}; give the pool the \
                 server's authority with `tls_ca`"
            ))
        })?;
        let mut config = ClientTlsConfig::new().trust_anchors(authorities.roots);
        if let Some((certificate, key)) = &tls.client {
            config = config.identity(Identity::from_pem(certificate, key));
            let tried = Endpoint::from_static("https://localhost").tls_config(config.clone());
            tried.map_err(|_| misread("tls_client"))?;
        }
        Ok(Self::Certificates(Box::new(config)))
    }

    /// True if tonic makes the TLS handshake. Otherwise, `reach` makes it.
    pub(super) fn is_of_tonic(&self) -> bool {
        matches!(self, Self::Certificates(_))
    }

    pub(super) async fn connect(&self, endpoint: Endpoint) -> Result<Channel, Error> {
        match self {
            Self::Certificates(config) => {
                let endpoint = endpoint.tls_config(ClientTlsConfig::clone(config))?;
                endpoint.connect().await
            }
            Self::Given(config) => {
                let config = Arc::clone(config);
                let connector = service_fn(move |uri| reach(Arc::clone(&config), uri));
                endpoint.connect_with_connector(connector).await
            }
        }
    }
}

/// Opens an encrypted stream to the member at `uri`.
async fn reach(config: Arc<ClientConfig>, uri: Uri) -> io::Result<TokioIo<TlsStream<TcpStream>>> {
    let host = uri.host().unwrap_or_default();
    let host = host
        .trim_start_matches('[')
        .trim_end_matches(']')
        .to_owned();
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_keepalive(Some(PROBE));
    connector.set_keepalive_interval(Some(PROBE_EVERY));
    connector.set_keepalive_retries(Some(PROBES));
    let stream = connector.call(uri).await.map_err(io::Error::other)?;
    let stream = stream.into_inner();
    let name = ServerName::try_from(host).map_err(io::Error::other)?;
    let shaking = TlsConnector::from(config).connect(name, stream);
    Ok(TokioIo::new(shaking.await?))
}
