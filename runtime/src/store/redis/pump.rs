//! What moves bytes between a connection and its socket.
//!
//! The crate `redis` leaves that to a task of the runtime. Here whoever polls the store does it, so that the thread that has a request
//! writes it to the socket itself, without waking another, and the thread that looks for an answer reads it. With TLS it stays a task,
//! and elsewhere than on Linux.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll};

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ConnectionInfo, RedisError};
#[cfg(target_os = "linux")]
use {
    super::socket::{Ear, Socket, Stream},
    futures_util::future::select_ok,
    redis::ConnectionAddr,
    std::net::SocketAddr,
    std::sync::Arc,
    tokio::net::{TcpStream, UnixStream, lookup_host},
};

use super::line::Boxed;
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
            *self = Self::default();
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
    #[cfg(target_os = "linux")]
    if let Some(socket) = socket_to(info.addr()).await? {
        let ear = Some(socket.ear());
        let settings = info.redis_settings();
        let connecting = MultiplexedConnection::new_with_config(settings, socket, config);
        let (connection, moving) = connecting.await?;
        let moving: Option<Boxed<()>> = Some(Box::pin(moving));
        return Ok((connection, Pump { moving, ear }));
    }
    let client = Client::open(info)?;
    let connecting = client.get_multiplexed_async_connection_with_config(&config);
    Ok((connecting.await?, Pump::default()))
}

/// Nothing where there is more between the connection and its socket.
#[cfg(target_os = "linux")]
async fn socket_to(address: &ConnectionAddr) -> Result<Option<Socket>, RedisError> {
    let stream = match address {
        ConnectionAddr::Tcp(host, port) => Stream::Tcp(reach(host, *port).await?.into_std()?),
        ConnectionAddr::Unix(path) => Stream::Unix(UnixStream::connect(path).await?.into_std()?),
        _ => return Ok(None),
    };
    Ok(Some(Socket::new(stream)?))
}

/// The first of the host's addresses that answers.
#[cfg(target_os = "linux")]
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
