//! A socket that any thread may read, whichever runtime waits for incoming bytes.
//!
//! Reading and writing need no runtime: a non-blocking stream reports at once if there is nothing
//! to read, or if its send buffer is full. Only waiting needs a runtime:
//! - The runtime of a [listener](Listen), which belongs to a caller, waits for incoming bytes. If
//!   there is no listener, the engine's runtime waits for them.
//! - The engine's runtime always waits for space in the send buffer.
//!
//! Only one runtime waits for incoming bytes, because each waiting runtime would wake a thread for
//! them.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
#[cfg(unix)]
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};

use crate::store::{self, Listen};

pub(crate) mod reach;

/// Maximum number of bytes of one read.
const PIECE: usize = 16 * 1024;

/// A connected, non-blocking stream.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    #[cfg(unix)]
    Unix(UnixStream),
}

impl Stream {
    fn write(&self, buf: &[u8]) -> io::Result<usize> {
        uninterrupted(|| match self {
            Self::Tcp(stream) => (&*stream).write(buf),
            #[cfg(unix)]
            Self::Unix(stream) => (&*stream).write(buf),
        })
    }

    fn read(&self, room: &mut [u8]) -> io::Result<usize> {
        uninterrupted(|| match self {
            Self::Tcp(stream) => (&*stream).read(room),
            #[cfg(unix)]
            Self::Unix(stream) => (&*stream).read(room),
        })
    }

    /// Returns another descriptor of the same stream.
    fn copy(&self) -> io::Result<Self> {
        let copy = match self {
            Self::Tcp(stream) => stream.try_clone().map(Self::Tcp),
            #[cfg(unix)]
            Self::Unix(stream) => stream.try_clone().map(Self::Unix),
        };
        copy.map_err(|error| reach::explained(&error))
    }

    fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.shutdown(how),
            #[cfg(unix)]
            Self::Unix(stream) => stream.shutdown(how),
        }
    }
}

fn uninterrupted(mut io: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match io() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// The socket of one connection.
#[derive(Debug)]
pub(crate) struct Socket {
    wire: Arc<Wire>,
    /// Readiness on the engine's runtime: for reads while no listener waits for incoming bytes, and
    /// for writes while the send buffer is full.
    readiness: Option<Readiness>,
    /// Duplicate of the stream's file descriptor, kept after `readiness` is dropped. Without it,
    /// the next `readiness` would need a new duplicate, and would fail if the process has no free
    /// descriptor.
    copy: Option<Stream>,
    /// True if a write waits for space in the send buffer.
    blocked: bool,
    /// Buffer for reads, which is zeroed only once. The buffer of the caller (`ReadBuf`) would have
    /// to be zeroed before each read.
    piece: Box<[u8]>,
}

/// The stream of a socket, and the state that the socket shares with listeners.
#[derive(Debug)]
pub(crate) struct Wire {
    stream: Stream,
    /// True if a listener, instead of the engine's runtime, waits for incoming bytes.
    listener: AtomicBool,
    /// True if unread bytes may have arrived. Only a thread with the engine's mutex changes this
    /// flag or reads the stream, so relaxed memory ordering is enough.
    received: AtomicBool,
}

impl Socket {
    pub(crate) fn new(stream: Stream) -> Self {
        let wire = Wire {
            stream,
            listener: AtomicBool::new(false),
            received: AtomicBool::new(false),
        };
        Self {
            wire: Arc::new(wire),
            readiness: None,
            copy: None,
            blocked: false,
            piece: vec![0; PIECE].into(),
        }
    }

    pub(crate) fn wire(&self) -> Arc<Wire> {
        Arc::clone(&self.wire)
    }

    /// Stops the engine's runtime from waiting for this socket, and keeps the copy of the
    /// descriptor.
    fn drop_readiness(&mut self) {
        if let Some(readiness) = self.readiness.take() {
            // Without a copy, `Readiness::get_or_make` makes another one when it is needed.
            self.copy = readiness.into_copy().ok();
        }
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>, room: usize) -> Poll<io::Result<usize>> {
        if self.wire.listener.load(Ordering::Relaxed) && !self.blocked {
            self.drop_readiness();
        }
        let Self {
            wire,
            readiness,
            copy,
            piece,
            ..
        } = self;
        let room = &mut piece[..room];
        if wire.received.load(Ordering::Relaxed) {
            let read = wire.stream.read(room);
            // A read that does not fill the buffer has read all available bytes.
            let more = read.as_ref().is_ok_and(|count| *count == room.len());
            wire.received.store(more, Ordering::Relaxed);
            match read {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
        }
        if wire.listener.load(Ordering::Relaxed) {
            return Poll::Pending;
        }
        let readiness = Readiness::get_or_make(readiness, copy, &wire.stream)?;
        readiness.poll_io(Interest::READABLE, cx, || wire.stream.read(room))
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let count = ready!(this.poll_piece(cx, buf.remaining().min(PIECE)))?;
        buf.put_slice(&this.piece[..count]);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let Self {
            wire,
            readiness,
            copy,
            blocked,
            ..
        } = self.get_mut();
        let done = match wire.stream.write(buf) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                *blocked = true;
                let readiness = Readiness::get_or_make(readiness, copy, &wire.stream)?;
                ready!(readiness.poll_io(Interest::WRITABLE, cx, || wire.stream.write(buf)))
            }
            done => done,
        };
        *blocked = false;
        Poll::Ready(done)
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.wire.stream.shutdown(Shutdown::Write))
    }
}

impl Drop for Socket {
    /// Shuts the stream down. Otherwise, the stream would stay open, because a listener has a copy
    /// of its descriptor. The shutdown wakes the listener, which then drops its copy.
    fn drop(&mut self) {
        // An error is ignored, because the server may have closed the stream already.
        let _ = self.wire.stream.shutdown(Shutdown::Both);
    }
}

impl store::Socket for Wire {
    fn listen(&self) -> io::Result<Box<dyn Listen>> {
        Ok(Box::new(Readiness::new(self.stream.copy()?)?))
    }

    fn leave_to_listener(&self, listener: bool) {
        self.listener.store(listener, Ordering::Relaxed);
    }

    fn received(&self) {
        self.received.store(true, Ordering::Relaxed);
    }
}

/// The sockets that the store last returned to the engine.
#[derive(Debug, Default)]
pub(crate) struct Announced(Vec<Arc<Wire>>);

impl Announced {
    /// Returns the current sockets, if they have changed since the last call.
    pub(crate) fn changed<'a>(
        &mut self,
        wires: impl Iterator<Item = &'a Arc<Wire>> + Clone,
    ) -> Option<Vec<Arc<dyn store::Socket>>> {
        let known = self.0.iter().map(Arc::as_ptr);
        if wires.clone().map(Arc::as_ptr).eq(known) {
            return None;
        }
        self.0 = wires.map(Arc::clone).collect();
        let sockets = self.0.iter().map(Arc::clone);
        Some(sockets.map(|wire| wire as Arc<dyn store::Socket>).collect())
    }
}

/// Readiness of a stream: a copy of its file descriptor, registered with a runtime.
#[derive(Debug)]
enum Readiness {
    Tcp(tokio::net::TcpStream),
    #[cfg(unix)]
    Unix(tokio::net::UnixStream),
}

impl Readiness {
    /// Registers `copy` with the runtime of the caller.
    fn new(copy: Stream) -> io::Result<Self> {
        match copy {
            Stream::Tcp(copy) => tokio::net::TcpStream::from_std(copy).map(Self::Tcp),
            #[cfg(unix)]
            Stream::Unix(copy) => tokio::net::UnixStream::from_std(copy).map(Self::Unix),
        }
    }

    /// Returns the readiness in `kept`. If there is none, creates it from `copy`, or from a new
    /// copy of `stream`.
    fn get_or_make<'a>(
        kept: &'a mut Option<Self>,
        copy: &mut Option<Stream>,
        stream: &Stream,
    ) -> io::Result<&'a Self> {
        if kept.is_none() {
            let copy = copy.take().map_or_else(|| stream.copy(), Ok)?;
            *kept = Some(Self::new(copy)?);
        }
        kept.as_ref().ok_or(ErrorKind::NotConnected.into())
    }

    fn into_copy(self) -> io::Result<Stream> {
        match self {
            Self::Tcp(readiness) => readiness.into_std().map(Stream::Tcp),
            #[cfg(unix)]
            Self::Unix(readiness) => readiness.into_std().map(Stream::Unix),
        }
    }

    fn poll_ready(&self, interest: Interest, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(stream) if interest.is_writable() => stream.poll_write_ready(cx),
            Self::Tcp(stream) => stream.poll_read_ready(cx),
            #[cfg(unix)]
            Self::Unix(stream) if interest.is_writable() => stream.poll_write_ready(cx),
            #[cfg(unix)]
            Self::Unix(stream) => stream.poll_read_ready(cx),
        }
    }

    /// Calls `io`, or returns `WouldBlock` if the runtime has recorded that the stream is not
    /// ready. If `io` returns `WouldBlock`, the runtime records that the stream is not ready, and
    /// waits for a change.
    fn try_io<T>(&self, interest: Interest, io: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        match self {
            Self::Tcp(stream) => stream.try_io(interest, io),
            #[cfg(unix)]
            Self::Unix(stream) => stream.try_io(interest, io),
        }
    }

    fn poll_io<T>(
        &self,
        interest: Interest,
        cx: &mut Context<'_>,
        mut io: impl FnMut() -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        loop {
            ready!(self.poll_ready(interest, cx))?;
            match self.try_io(interest, &mut io) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
        }
    }
}

impl Listen for Readiness {
    fn poll_received(
        &mut self,
        cx: &mut Context<'_>,
        read: &mut dyn FnMut(),
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_ready(Interest::READABLE, cx))?;
        let _ = self.try_io(Interest::READABLE, || {
            read();
            Err::<(), _>(ErrorKind::WouldBlock.into())
        });
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
#[path = "socket_tests.rs"]
mod tests;
