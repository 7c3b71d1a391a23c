//! What moves bytes between a connection and its socket.
//!
//! The crate `redis` leaves that to a task of the runtime. Here whoever polls the store does it, so that the thread that has a request
//! writes it to the socket itself, without waking another, and the thread that looks for an answer reads it. With TLS it stays a task.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

#[cfg(unix)]
use eager::Eager;
use futures_util::future::select_ok;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, RedisError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};

use super::line::Boxed;

/// Moves the bytes of one connection while it is polled.
#[derive(Default)]
pub(super) struct Pump {
    moving: Option<Boxed<()>>,
    /// Whether its reader looks at the socket itself.
    looks: Arc<AtomicBool>,
}

impl Pump {
    /// Whether any thread can [attend](Self::attend) to the connection.
    pub(super) fn reads_anywhere(&self) -> bool {
        cfg!(unix) && self.moving.is_some()
    }

    /// See [`LockStore::attend`](crate::store::LockStore::attend).
    pub(super) fn attend(&self, here: bool) {
        self.looks.store(here, Ordering::Relaxed);
    }

    /// Writes what is to be sent and takes in what has arrived.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) {
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
            pumped(&info, stream, config).await
        }
        #[cfg(unix)]
        ConnectionAddr::Unix(path) => {
            let stream = tokio::net::UnixStream::connect(path).await?;
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

/// What a stream of bytes has to be.
#[cfg(unix)]
trait Stream: AsyncRead + AsyncWrite + std::os::fd::AsFd + Unpin + Send + 'static {}
#[cfg(unix)]
impl<S: AsyncRead + AsyncWrite + std::os::fd::AsFd + Unpin + Send + 'static> Stream for S {}
#[cfg(not(unix))]
trait Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static {}
#[cfg(not(unix))]
impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Stream for S {}

async fn pumped(
    info: &ConnectionInfo,
    stream: impl Stream,
    config: AsyncConnectionConfig,
) -> Result<(MultiplexedConnection, Pump), RedisError> {
    let settings = info.redis_settings();
    let looks = Arc::default();
    #[cfg(unix)]
    let stream = Eager::new(stream, Arc::clone(&looks));
    let (connection, moving) =
        MultiplexedConnection::new_with_config(settings, stream, config).await?;
    let moving: Option<Boxed<()>> = Some(Box::pin(moving));
    Ok((connection, Pump { moving, looks }))
}

#[cfg(unix)]
mod eager {
    use std::io;
    use std::os::fd::AsFd;
    use std::pin::Pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::{Context, Poll};

    use rustix::io::{Errno, read};
    use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

    /// So much is read at a time at most.
    const PIECE: usize = 16 * 1024;

    /// A socket whose reader looks for itself while it is told to. The runtime's own thread has to wake up to hear that there is something to
    /// read, and until then tells all others that there is nothing.
    #[derive(Debug)]
    pub(super) struct Eager<S> {
        stream: S,
        looks: Arc<AtomicBool>,
    }

    impl<S> Eager<S> {
        pub(super) fn new(stream: S, looks: Arc<AtomicBool>) -> Self {
            Self { stream, looks }
        }
    }

    impl<S: AsyncRead + AsFd + Unpin> AsyncRead for Eager<S> {
        fn poll_read(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            buf: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            if self.looks.load(Ordering::Relaxed) {
                let room = buf.remaining().min(PIECE);
                // All sockets of the runtime are non-blocking.
                match read(&self.stream, buf.initialize_unfilled_to(room)) {
                    Ok(count) => {
                        buf.advance(count);
                        return Poll::Ready(Ok(()));
                    }
                    Err(Errno::AGAIN | Errno::INTR) => {}
                    Err(error) => return Poll::Ready(Err(error.into())),
                }
            }
            // Nothing yet: the runtime tells when there is.
            Pin::new(&mut self.stream).poll_read(cx, buf)
        }
    }

    impl<S: AsyncWrite + Unpin> AsyncWrite for Eager<S> {
        fn poll_write(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            buf: &[u8],
        ) -> Poll<io::Result<usize>> {
            Pin::new(&mut self.stream).poll_write(cx, buf)
        }

        fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.stream).poll_flush(cx)
        }

        fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.stream).poll_shutdown(cx)
        }

        fn poll_write_vectored(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            bufs: &[io::IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
        }

        fn is_write_vectored(&self) -> bool {
            self.stream.is_write_vectored()
        }
    }
}
