//! What moves bytes between a connection and its socket.
//!
//! The crate `redis` leaves that to a task of the runtime. Here whoever polls the store does it, so that the thread that has a request
//! writes it to the socket itself, without waking another, and the thread that looks for an answer reads it. With TLS it stays a task.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::pin;
#[cfg(target_os = "linux")]
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::select_ok;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, RedisError};
use tokio::io::{AsyncRead, AsyncWrite};
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio::net::{TcpStream, lookup_host};

use super::line::Boxed;
#[cfg(target_os = "linux")]
use super::socket::{Ear, Socket, Stream};
use crate::store::Attention;

/// Moves the bytes of one connection while it is polled.
#[derive(Default)]
pub(super) struct Pump {
    moving: Option<Boxed<()>>,
    #[cfg(target_os = "linux")]
    ear: Option<Arc<Ear>>,
}

impl Pump {
    /// Whether any thread can [attend](Self::attend) to the connection.
    pub(super) fn reads_anywhere(&self) -> bool {
        #[cfg(target_os = "linux")]
        return self.ear.is_some() && self.moving.is_some();
        #[cfg(not(target_os = "linux"))]
        return false;
    }

    /// See [`LockStore::attend`](crate::store::LockStore::attend).
    pub(super) fn attend(&self, attention: Attention) {
        #[cfg(target_os = "linux")]
        if let Some(ear) = &self.ear {
            ear.attend(attention);
        }
        let _ = attention;
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
            self.moving = None;
        }
    }

    /// Does `work`, and moves its bytes.
    pub(super) async fn drive<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        poll_fn(|cx| {
            if let Poll::Ready(done) = work.as_mut().poll(cx) {
                return Poll::Ready(done);
            }
            self.poll(cx);
            work.as_mut().poll(cx)
        })
        .await
    }
}

/// Connects and logs in.
pub(super) async fn open(
    info: ConnectionInfo,
    config: AsyncConnectionConfig,
) -> Result<(MultiplexedConnection, Pump), RedisError> {
    match info.addr() {
        ConnectionAddr::Tcp(host, port) => {
            let stream = reach(host, *port).await?;
            #[cfg(target_os = "linux")]
            return attended(&info, Stream::Tcp(stream.into_std()?), config).await;
            #[cfg(not(target_os = "linux"))]
            pumped(&info, stream, config).await
        }
        #[cfg(unix)]
        ConnectionAddr::Unix(path) => {
            let stream = UnixStream::connect(path).await?;
            #[cfg(target_os = "linux")]
            return attended(&info, Stream::Unix(stream.into_std()?), config).await;
            #[cfg(not(target_os = "linux"))]
            pumped(&info, stream, config).await
        }
        _ => {
            let client = Client::open(info)?;
            let connecting = client.get_multiplexed_async_connection_with_config(&config);
            Ok((connecting.await?, Pump::default()))
        }
    }
}

/// The first of the host's addresses that answers.
async fn reach(host: &str, port: u16) -> Result<TcpStream, RedisError> {
    let addresses: Vec<SocketAddr> = lookup_host((host, port)).await?.collect();
    if addresses.is_empty() {
        return Err(std::io::Error::from(std::io::ErrorKind::NotFound).into());
    }
    let attempts = addresses
        .into_iter()
        .map(|address| Box::pin(TcpStream::connect(address)));
    let (stream, _) = select_ok(attempts).await?;
    // What is ready leaves together anyway; nothing is gained by waiting for more.
    stream.set_nodelay(true)?;
    Ok(stream)
}

#[cfg(target_os = "linux")]
async fn attended(
    info: &ConnectionInfo,
    stream: Stream,
    config: AsyncConnectionConfig,
) -> Result<(MultiplexedConnection, Pump), RedisError> {
    let socket = Socket::new(stream)?;
    let ear = socket.ear();
    let (connection, pump) = pumped(info, socket, config).await?;
    let ear = Some(ear);
    Ok((connection, Pump { ear, ..pump }))
}

async fn pumped(
    info: &ConnectionInfo,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    config: AsyncConnectionConfig,
) -> Result<(MultiplexedConnection, Pump), RedisError> {
    let settings = info.redis_settings();
    let (connection, moving) =
        MultiplexedConnection::new_with_config(settings, stream, config).await?;
    let pump = Pump {
        moving: Some(Box::pin(moving)),
        ..Pump::default()
    };
    Ok((connection, pump))
}
