//! What moves bytes between a connection and its socket.
//!
//! The crate `redis` leaves that to a task of the runtime. Here whoever polls the store does it, so
//! the thread that has a request writes it to the socket itself, without waking another, and the
//! thread that hears of an answer reads it.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::select_ok;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ConnectionAddr, RedisConnectionInfo, RedisError, RedisResult};
use tokio::io::{AsyncRead, AsyncWrite};
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio::net::{TcpStream, lookup_host};

use super::connection::Boxed;
use super::guarded::{Guarded, Verdict};
use super::server::Server;
use super::socket::{Socket, Stream, Wire};

/// Moves the bytes of one connection while it is polled.
pub(crate) struct Pump {
    moving: Option<Boxed<()>>,
    wire: Arc<Wire>,
    verdict: Verdict,
}

impl Pump {
    /// What any thread can hear of answers on.
    pub(crate) fn wire(&self) -> &Arc<Wire> {
        &self.wire
    }

    /// Whether the connection has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.moving.is_none()
    }

    /// What the connection has ended with, if that is no reply.
    pub(crate) fn verdict(&self) -> Verdict {
        self.verdict.clone()
    }

    /// Writes what is to be sent and takes in what has arrived.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) {
        if let Some(moving) = &mut self.moving
            && moving.as_mut().poll(cx).is_ready()
        {
            // The connection has ended, and all that wait for answers have been told.
            self.moving = None;
        }
    }

    /// Does `work`, and moves its bytes.
    pub(crate) async fn drive<T>(
        &mut self,
        work: impl Future<Output = RedisResult<T>>,
    ) -> RedisResult<T> {
        let verdict = self.verdict();
        let mut work = pin!(work);
        let done = poll_fn(|cx| {
            if let Poll::Ready(done) = work.as_mut().poll(cx) {
                return Poll::Ready(done);
            }
            self.poll(cx);
            work.as_mut().poll(cx)
        });
        done.await.map_err(|error| verdict.explain(error))
    }
}

/// Connects to the server and logs in.
pub(crate) async fn open(
    server: &Server,
    settings: &RedisConnectionInfo,
    config: AsyncConnectionConfig,
) -> Result<(MultiplexedConnection, Pump), RedisError> {
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
) -> Result<(MultiplexedConnection, Pump), RedisError> {
    let stream = Guarded::new(stream);
    let verdict = stream.verdict();
    let connecting = MultiplexedConnection::new_with_config(settings, stream, config);
    let connected = connecting.await;
    let (connection, moving) = connected.map_err(|error| verdict.explain(error))?;
    let pump = Pump {
        moving: Some(Box::pin(moving)),
        wire,
        verdict,
    };
    Ok((connection, pump))
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
