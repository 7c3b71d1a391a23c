//! What moves bytes between a connection and its socket.
//!
//! The crate `redis` leaves that to a task of the runtime. Here whoever polls the store does it, so that the thread that has a request
//! writes it to the socket itself, without waking another, and the thread that looks for an answer reads it. With TLS it stays a task,
//! and elsewhere than on Linux.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
#[cfg(unix)]
use std::path::Path;
use std::pin::pin;
#[cfg(target_os = "linux")]
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::select_ok;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ConnectionAddr, RedisConnectionInfo, RedisError, RedisResult};
#[cfg(any(feature = "tls", not(target_os = "linux")))]
use tokio::io::{AsyncRead, AsyncWrite};
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio::net::{TcpStream, lookup_host};

use super::guarded::{Guarded, Verdict};
use super::line::Boxed;
use super::server::Server;
#[cfg(target_os = "linux")]
use super::socket::{Ear, Socket, Stream};
use crate::store::Attention;

/// Moves the bytes of one connection while it is polled.
#[derive(Default)]
pub(super) struct Pump {
    moving: Option<Boxed<()>>,
    #[cfg(target_os = "linux")]
    ear: Option<Arc<Ear>>,
    verdict: Verdict,
}

impl Pump {
    /// Whether any thread can [attend](Self::attend) to the connection.
    pub(super) fn reads_anywhere(&self) -> bool {
        self.moving.is_some()
    }

    /// See [`LockStore::attend`](crate::store::LockStore::attend).
    pub(super) fn attend(&self, attention: Attention) {
        #[cfg(target_os = "linux")]
        if let Some(ear) = &self.ear {
            ear.attend(attention);
        }
        #[cfg(not(target_os = "linux"))]
        let _ = (self, attention);
    }

    /// What the connection has ended with, if that is no reply.
    pub(super) fn verdict(&self) -> Verdict {
        self.verdict.clone()
    }

    /// Writes what is to be sent and takes in what has arrived.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) {
        #[cfg(target_os = "linux")]
        if let Some(ear) = &self.ear {
            ear.begin_look();
        }
        if let Some(moving) = &mut self.moving
            && moving.as_mut().poll(cx).is_ready()
        {
            // The connection has ended, and all who wait for answers have been told.
            *self = Self {
                verdict: self.verdict(),
                ..Self::default()
            };
        }
    }

    /// Does `work`, and moves its bytes.
    pub(super) async fn drive<T>(
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
pub(super) async fn open(
    server: &Server,
    settings: &RedisConnectionInfo,
    config: AsyncConnectionConfig,
) -> Result<(MultiplexedConnection, Pump), RedisError> {
    match server.info().addr() {
        ConnectionAddr::Tcp(host, port) => plain(reach(host, *port).await?, settings, config).await,
        #[cfg(unix)]
        ConnectionAddr::Unix(path) => local(path, settings, config).await,
        #[cfg(feature = "tls")]
        ConnectionAddr::TcpTls { host, port, .. } => {
            let stream = server.tls().reach(host, reach(host, *port).await?).await?;
            apart(stream, settings, config).await
        }
        _ => Err(io::Error::from(io::ErrorKind::Unsupported).into()),
    }
}

#[cfg(target_os = "linux")]
async fn plain(
    stream: TcpStream,
    settings: &RedisConnectionInfo,
    config: AsyncConnectionConfig,
) -> Result<(MultiplexedConnection, Pump), RedisError> {
    here(Stream::Tcp(stream.into_std()?), settings, config).await
}

#[cfg(target_os = "linux")]
async fn local(
    path: &Path,
    settings: &RedisConnectionInfo,
    config: AsyncConnectionConfig,
) -> Result<(MultiplexedConnection, Pump), RedisError> {
    let stream = UnixStream::connect(path).await?.into_std()?;
    here(Stream::Unix(stream), settings, config).await
}

/// A connection whose bytes are moved by the pump.
#[cfg(target_os = "linux")]
async fn here(
    stream: Stream,
    settings: &RedisConnectionInfo,
    config: AsyncConnectionConfig,
) -> Result<(MultiplexedConnection, Pump), RedisError> {
    let socket = Socket::new(stream)?;
    let ear = Some(socket.ear());
    let socket = Guarded::new(socket);
    let verdict = socket.verdict();
    let connecting = MultiplexedConnection::new_with_config(settings, socket, config);
    let connected = connecting.await;
    let (connection, moving) = connected.map_err(|error| verdict.explain(error))?;
    let moving: Option<Boxed<()>> = Some(Box::pin(moving));
    let pump = Pump {
        moving,
        ear,
        verdict,
    };
    Ok((connection, pump))
}

#[cfg(not(target_os = "linux"))]
async fn plain(
    stream: TcpStream,
    settings: &RedisConnectionInfo,
    config: AsyncConnectionConfig,
) -> Result<(MultiplexedConnection, Pump), RedisError> {
    apart(stream, settings, config).await
}

#[cfg(all(unix, not(target_os = "linux")))]
async fn local(
    path: &Path,
    settings: &RedisConnectionInfo,
    config: AsyncConnectionConfig,
) -> Result<(MultiplexedConnection, Pump), RedisError> {
    apart(UnixStream::connect(path).await?, settings, config).await
}

/// A connection whose bytes are moved by a task of the runtime.
#[cfg(any(feature = "tls", not(target_os = "linux")))]
async fn apart(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    settings: &RedisConnectionInfo,
    config: AsyncConnectionConfig,
) -> Result<(MultiplexedConnection, Pump), RedisError> {
    let stream = Guarded::new(stream);
    let verdict = stream.verdict();
    let connecting = MultiplexedConnection::new_with_config(settings, stream, config);
    let connected = connecting.await;
    let (connection, moving) = connected.map_err(|error| verdict.explain(error))?;
    tokio::spawn(moving);
    let pump = Pump {
        verdict,
        ..Pump::default()
    };
    Ok((connection, pump))
}

/// The first of the host's addresses that answers.
async fn reach(host: &str, port: u16) -> io::Result<TcpStream> {
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
    Ok(stream)
}
