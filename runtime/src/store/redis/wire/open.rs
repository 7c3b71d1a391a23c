//! Opening a connection: to a socket, through TLS, past the log-in.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::future::select_ok;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ConnectionAddr, RedisConnectionInfo, RedisError};
use tokio::io::{AsyncRead, AsyncWrite};
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio::net::{TcpStream, lookup_host};

use super::guarded::Guarded;
use super::io_driver::IoDriver;
use super::server::Server;
use super::socket::{Socket, Stream, Wire};

/// Connects to the server and logs in.
pub(crate) async fn open(
    server: &Server,
    settings: &RedisConnectionInfo,
    config: AsyncConnectionConfig,
) -> Result<(MultiplexedConnection, IoDriver), RedisError> {
    match server.info().addr() {
        ConnectionAddr::Tcp(host, port) => {
            let socket = Socket::new(reach(host, *port).await?);
            let wire = socket.wire();
            over(socket, wire, settings, config).await
        }
        #[cfg(unix)]
        ConnectionAddr::Unix(path) => {
            let stream = UnixStream::connect(path).await?.into_std()?;
            let socket = Socket::new(Stream::Unix(stream));
            let wire = socket.wire();
            over(socket, wire, settings, config).await
        }
        #[cfg(feature = "tls")]
        ConnectionAddr::TcpTls { host, port, .. } => {
            let socket = Socket::new(reach(host, *port).await?);
            let wire = socket.wire();
            let stream = server.tls().reach(host, socket).await?;
            over(stream, wire, settings, config).await
        }
        _ => Err(io::Error::from(io::ErrorKind::Unsupported).into()),
    }
}

/// A connection over a stream whose bytes go through the socket of `wire`.
async fn over(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    wire: Arc<Wire>,
    settings: &RedisConnectionInfo,
    config: AsyncConnectionConfig,
) -> Result<(MultiplexedConnection, IoDriver), RedisError> {
    let stream = Guarded::new(stream);
    let verdict = stream.verdict();
    let connecting = MultiplexedConnection::new_with_config(settings, stream, config);
    let connected = connecting.await;
    let (connection, moving) = connected.map_err(|error| verdict.explain(error))?;
    let io_driver = IoDriver::new(moving, wire, verdict);
    Ok((connection, io_driver))
}

/// The first of the host's addresses that answers.
async fn reach(host: &str, port: u16) -> io::Result<Stream> {
    let addresses: Vec<SocketAddr> = lookup_host((host, port)).await?.collect();
    if addresses.is_empty() {
        return Err(io::ErrorKind::NotFound.into());
    }
    let attempts = addresses
        .into_iter()
        .map(|address| Box::pin(TcpStream::connect(address)));
    let (stream, _) = select_ok(attempts).await?;
    // What is ready leaves together anyway; nothing is gained by waiting for more.
    stream.set_nodelay(true)?;
    Ok(Stream::Tcp(stream.into_std()?))
}
