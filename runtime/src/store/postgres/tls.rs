//! TLS between the pool and a server.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;

use super::hosts::{Hosts, Security};
use crate::store::socket::Socket;
use crate::store::tls::Proof;

/// Configuration for TLS handshakes, as `sslmode` specifies. `None` for connections without TLS.
pub(super) struct Connector(Option<Arc<ClientConfig>>);

impl Connector {
    pub(super) fn new(hosts: &Hosts) -> io::Result<Self> {
        let proof = match hosts.security() {
            Security::Plain => return Ok(Self(None)),
            // Like libpq: if an authority is configured, it must have certified the server.
            Security::Encrypted if hosts.tls.ca.is_some() => Proof::Chain,
            Security::Encrypted => Proof::Nothing,
            Security::Certified => Proof::Chain,
            Security::Named => Proof::Name,
        };
        hosts.tls.config(proof).map(|config| Self(Some(config)))
    }

    /// Returns the handshake with the host of that name.
    pub(super) fn with(&self, host: &str) -> Handshake {
        Handshake {
            config: self.0.clone(),
            host: host.to_owned(),
        }
    }
}

/// A handshake with one host. The driver also requires one for a connection without TLS, but does
/// not use it.
pub(super) struct Handshake {
    config: Option<Arc<ClientConfig>>,
    host: String,
}

impl TlsConnect<Socket> for Handshake {
    type Stream = Stream;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Stream>> + Send>>;

    fn connect(self, socket: Socket) -> Self::Future {
        Box::pin(async move {
            let config = self.config.ok_or(io::ErrorKind::Unsupported)?;
            let name = ServerName::try_from(self.host).map_err(io::Error::other)?;
            let shaking = TlsConnector::from(config).connect(name, socket);
            Ok(Stream(shaking.await?))
        })
    }
}

/// The encrypted stream to the server.
pub(super) struct Stream(tokio_rustls::client::TlsStream<Socket>);

impl TlsStream for Stream {
    /// Returns no channel binding: the login is not tied to this TLS session. The handshake has
    /// already verified the server as `sslmode` specifies.
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
