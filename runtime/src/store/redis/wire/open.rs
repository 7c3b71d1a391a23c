//! Opening a connection: to a socket, through TLS, past the log-in.

use std::io;
use std::sync::Arc;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ConnectionAddr, RedisConnectionInfo, RedisError};
use tokio::io::{AsyncRead, AsyncWrite};

use super::guarded::Guarded;
use super::io_driver::IoDriver;
use super::server::Server;
use crate::store::socket::{Wire, reach};

/// Connects to the server and logs in.
pub(crate) async fn open(
    server: &Server,
    settings: &RedisConnectionInfo,
    config: AsyncConnectionConfig,
) -> Result<(MultiplexedConnection, IoDriver), RedisError> {
    match server.info().addr() {
        ConnectionAddr::Tcp(host, port) => {
            let socket = reach::host(host, *port).await?;
            let wire = socket.wire();
            over(socket, wire, settings, config).await
        }
        #[cfg(unix)]
        ConnectionAddr::Unix(path) => {
            let socket = reach::path(path).await?;
            let wire = socket.wire();
            over(socket, wire, settings, config).await
        }
        #[cfg(feature = "tls")]
        ConnectionAddr::TcpTls { host, port, .. } => {
            let socket = reach::host(host, *port).await?;
            let wire = socket.wire();
            let stream = server.tls().reach(host, socket).await?;
            over(stream, wire, settings, config).await
        }
        _ => Err(io::Error::from(io::ErrorKind::Unsupported).into()),
    }
}

/// A connection over a stream that moves its bytes through the socket of `wire`.
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
