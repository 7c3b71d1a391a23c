//! Certificates for `rediss://`.

use std::io;

use redis::{Client, ClientTlsConfig, ConnectionAddr, ConnectionInfo, TlsCertificates};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::error::LockError;
use crate::store::tls::{Proof, Tls, misread};

impl Tls {
    /// Returns `info` with the certificates in `self`. The server's certificate and name are always
    /// verified.
    pub(crate) fn apply(&self, info: ConnectionInfo) -> Result<ConnectionInfo, LockError> {
        if !matches!(info.addr(), ConnectionAddr::TcpTls { .. }) {
            self.refuse()?;
        }
        if self.is_default() {
            return Ok(info);
        }
        self.check()?;
        if self.is_given() {
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
        let client = Client::build_with_tls(info, certificates);
        let client = client.map_err(|_| misread("tls_client` or `tls_ca"))?;
        Ok(client.get_connection_info().clone())
    }

    /// Performs the TLS handshake over `stream`. The server must prove that it is `host`.
    pub(crate) async fn reach<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        host: &str,
        stream: S,
    ) -> io::Result<TlsStream<S>> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        TlsConnector::from(self.config(Proof::Name)?)
            .connect(name, stream)
            .await
    }
}
