//! A socket that any thread may read, whichever runtime hears of what comes.
//!
//! Reading and writing need no runtime: a stream that does not block says by itself that there is
//! nothing to read, or no room. A runtime is needed to hear when that changes. For incoming bytes
//! that is the runtime of a [listener](Listen), a caller's; without a listener it is the engine's.
//! For room to write it is always the engine's. Each runtime that hears wakes a thread, so one
//! does.

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

/// So much is read at a time at most.
const PIECE: usize = 16 * 1024;

/// A connected stream that does not block.
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

    /// Another descriptor of the same stream.
    fn copy(&self) -> io::Result<Self> {
        match self {
            Self::Tcp(stream) => stream.try_clone().map(Self::Tcp),
            #[cfg(unix)]
            Self::Unix(stream) => stream.try_clone().map(Self::Unix),
        }
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

/// What the bytes of one connection go through.
#[derive(Debug)]
pub(crate) struct Socket {
    wire: Arc<Wire>,
    /// Hears on the engine's runtime: of what comes while no listener does, and of room while there
    /// is none.
    ear: Option<Ear>,
    /// The copy that the ear is made of, while there is none. It is kept so that a process without
    /// free descriptors loses no connection.
    copy: Option<Stream>,
    /// Whether a write waits for room.
    blocked: bool,
    /// What is read comes here first: the reader's own room would have to be cleared before each
    /// read.
    piece: Box<[u8]>,
}

/// The stream, and whoever hears of what comes on it.
#[derive(Debug)]
pub(crate) struct Wire {
    stream: Stream,
    /// Whether a listener hears of what comes.
    listener: AtomicBool,
    /// Whether something may have come that has not been read. Changed under the engine's mutex,
    /// as the stream is read, so no order of memory is needed.
    heard: AtomicBool,
}

impl Socket {
    pub(crate) fn new(stream: Stream) -> Self {
        let wire = Wire {
            stream,
            listener: AtomicBool::new(false),
            heard: AtomicBool::new(false),
        };
        Self {
            wire: Arc::new(wire),
            ear: None,
            copy: None,
            blocked: false,
            piece: vec![0; PIECE].into(),
        }
    }

    pub(crate) fn wire(&self) -> Arc<Wire> {
        Arc::clone(&self.wire)
    }

    /// The engine's runtime hears of nothing any more.
    fn cover_ear(&mut self) {
        if let Some(ear) = self.ear.take() {
            // Without it another is made when one is needed.
            self.copy = ear.into_copy().ok();
        }
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>, room: usize) -> Poll<io::Result<usize>> {
        if self.wire.listener.load(Ordering::Relaxed) && !self.blocked {
            self.cover_ear();
        }
        let Self {
            wire,
            ear,
            copy,
            piece,
            ..
        } = self;
        let room = &mut piece[..room];
        if !wire.listener.load(Ordering::Relaxed) {
            let ear = Ear::in_place(ear, copy, &wire.stream)?;
            return ear.poll_io(Interest::READABLE, cx, || wire.stream.read(room));
        }
        if !wire.heard.load(Ordering::Relaxed) {
            return Poll::Pending;
        }
        let read = wire.stream.read(room);
        // Where there was less than there is room for, that was all.
        let more = read.as_ref().is_ok_and(|count| *count == room.len());
        wire.heard.store(more, Ordering::Relaxed);
        match read {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Poll::Pending,
            done => Poll::Ready(done),
        }
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
            ear,
            copy,
            blocked,
            ..
        } = self.get_mut();
        let done = match wire.stream.write(buf) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                *blocked = true;
                let ear = Ear::in_place(ear, copy, &wire.stream)?;
                ready!(ear.poll_io(Interest::WRITABLE, cx, || wire.stream.write(buf)))
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
    /// A listener has a copy of the stream, which keeps it open: it hears of this and lets go.
    fn drop(&mut self) {
        // It may have been closed by the server.
        let _ = self.wire.stream.shutdown(Shutdown::Both);
    }
}

impl store::Socket for Wire {
    fn listen(&self) -> io::Result<Box<dyn Listen>> {
        Ok(Box::new(Ear::new(self.stream.copy()?)?))
    }

    fn leave_to_listener(&self, listener: bool) {
        self.listener.store(listener, Ordering::Relaxed);
    }

    fn heard(&self) {
        self.heard.store(true, Ordering::Relaxed);
    }
}

/// The sockets that the engine knows.
#[derive(Debug, Default)]
pub(crate) struct Told(Vec<Arc<Wire>>);

impl Told {
    /// The present sockets, if they have changed.
    pub(crate) fn news<'a>(
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

/// A copy of the stream that a runtime knows.
#[derive(Debug)]
enum Ear {
    Tcp(tokio::net::TcpStream),
    #[cfg(unix)]
    Unix(tokio::net::UnixStream),
}

impl Ear {
    /// On the runtime that this is called in.
    fn new(copy: Stream) -> io::Result<Self> {
        match copy {
            Stream::Tcp(copy) => tokio::net::TcpStream::from_std(copy).map(Self::Tcp),
            #[cfg(unix)]
            Stream::Unix(copy) => tokio::net::UnixStream::from_std(copy).map(Self::Unix),
        }
    }

    /// The one at this place. If there is none it is made of the copy, or of a new one.
    fn in_place<'a>(
        place: &'a mut Option<Self>,
        copy: &mut Option<Stream>,
        stream: &Stream,
    ) -> io::Result<&'a Self> {
        if place.is_none() {
            let copy = copy.take().map_or_else(|| stream.copy(), Ok)?;
            *place = Some(Self::new(copy)?);
        }
        place.as_ref().ok_or(ErrorKind::NotConnected.into())
    }

    fn into_copy(self) -> io::Result<Stream> {
        match self {
            Self::Tcp(ear) => ear.into_std().map(Stream::Tcp),
            #[cfg(unix)]
            Self::Unix(ear) => ear.into_std().map(Stream::Unix),
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

    /// Does `io`, unless the runtime knows that it would have nothing to do. The runtime waits for
    /// news from then on where `io` says that it has nothing to do.
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

impl Listen for Ear {
    fn poll_heard(&mut self, cx: &mut Context<'_>, read: &mut dyn FnMut()) -> Poll<io::Result<()>> {
        ready!(self.poll_ready(Interest::READABLE, cx))?;
        let _ = self.try_io(Interest::READABLE, || {
            read();
            Err::<(), _>(ErrorKind::WouldBlock.into())
        });
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::net::TcpListener;
    use std::time::Duration;

    use tokio::io::AsyncReadExt;
    use tokio::time::timeout;

    use super::store::Socket as _;
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn connected() -> (Socket, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let stream = TcpStream::connect(address).expect("a connection");
        stream.set_nonblocking(true).expect("it does not block");
        let other = listener.accept().expect("the other end").0;
        (Socket::new(Stream::Tcp(stream)), other)
    }

    /// What there is to read without waiting.
    async fn read(socket: &mut Socket) -> Option<Vec<u8>> {
        let mut room = vec![0; PIECE];
        let mut buf = ReadBuf::new(&mut room);
        let read = poll_fn(|cx| match Pin::new(&mut *socket).poll_read(cx, &mut buf) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending => Poll::Ready(None),
        });
        read.await?.expect("no error");
        Some(buf.filled().to_vec())
    }

    /// Waits until the listener hears, and reads then.
    async fn hear(listener: &mut dyn Listen, socket: &mut Socket) -> Vec<u8> {
        let wire = socket.wire();
        let heard = poll_fn(|cx| listener.poll_heard(cx, &mut || wire.heard()));
        timeout(LONG, heard).await.expect("heard").expect("open");
        read(socket).await.expect("something has come")
    }

    #[tokio::test]
    async fn the_runtime_hears_of_what_comes_where_there_is_no_listener() {
        let (mut socket, mut other) = connected();
        assert_eq!(read(&mut socket).await, None);
        other.write_all(b"!").expect("written");
        let byte = timeout(LONG, socket.read_u8()).await.expect("heard");
        assert_eq!(byte.expect("read"), b'!');
        drop(other);
        let end = timeout(LONG, socket.read(&mut [0])).await.expect("heard");
        assert_eq!(end.expect("no error"), 0);
    }

    /// Fails if the socket is read before the listener hears, or the listener hears once only.
    #[tokio::test]
    async fn a_listener_hears_and_nobody_reads_before_that() {
        let (mut socket, mut other) = connected();
        let wire = socket.wire();
        wire.leave_to_listener(true);
        // Before there is one.
        other.write_all(b"one").expect("written");
        let mut listener = wire.listen().expect("a runtime");
        assert_eq!(read(&mut socket).await, None);
        assert!(hear(&mut *listener, &mut socket).await.starts_with(b"one"));
        for word in [b"two", b"six"] {
            assert_eq!(read(&mut socket).await, None);
            other.write_all(word).expect("written");
            assert_eq!(hear(&mut *listener, &mut socket).await, word);
        }
        wire.leave_to_listener(false);
        other.write_all(b"!").expect("written");
        let byte = timeout(LONG, socket.read_u8()).await.expect("heard");
        assert_eq!(byte.expect("read"), b'!');
    }

    /// Fails if a reader that read less than it had room for does not find out that the other end
    /// has gone.
    #[tokio::test]
    async fn the_end_is_heard_behind_what_came_before_it() {
        let (mut socket, mut other) = connected();
        let wire = socket.wire();
        wire.leave_to_listener(true);
        let mut listener = wire.listen().expect("a runtime");
        other.write_all(b"last").expect("written");
        drop(other);
        for came in [&b"last"[..], b""] {
            assert_eq!(hear(&mut *listener, &mut socket).await, came);
        }
    }

    /// Fails if a listener keeps a connection open that the store has given up.
    #[tokio::test]
    async fn a_listener_hears_that_the_store_lets_go() {
        let (socket, mut other) = connected();
        let mut listener = socket.wire().listen().expect("a runtime");
        drop(socket);
        let heard = poll_fn(|cx| listener.poll_heard(cx, &mut || {}));
        timeout(LONG, heard).await.expect("heard").expect("told");
        assert_eq!(other.read(&mut [0]).expect("no error"), 0);
    }

    /// The other end sends everything back, and reads nothing while it cannot: reading and writing
    /// wait at the same time, again and again.
    #[tokio::test]
    async fn what_does_not_fit_waits_for_room_and_keeps_nobody_from_reading() {
        for listens in [false, true] {
            let (mut socket, mut other) = connected();
            let wire = socket.wire();
            wire.leave_to_listener(listens);
            let mut listener = wire.listen().expect("a runtime");
            std::thread::spawn(move || {
                let mut back = other.try_clone().expect("the same stream");
                io::copy(&mut other, &mut back)
            });
            let sent: Vec<u8> = (0..=u8::MAX).cycle().take(32_000_000).collect();
            let (mut done, mut got) = (0, Vec::new());
            let moving = poll_fn(|cx| {
                while done < sent.len()
                    && let Poll::Ready(count) = Pin::new(&mut socket).poll_write(cx, &sent[done..])
                {
                    done += count.expect("written");
                }
                while listens && listener.poll_heard(cx, &mut || wire.heard()).is_ready() {}
                loop {
                    let mut room = [0; PIECE];
                    let mut buf = ReadBuf::new(&mut room);
                    if Pin::new(&mut socket).poll_read(cx, &mut buf).is_pending() {
                        return Poll::Pending;
                    }
                    got.extend_from_slice(buf.filled());
                    if got.len() == sent.len() {
                        return Poll::Ready(());
                    }
                }
            });
            timeout(LONG, moving)
                .await
                .expect("somebody waits for ever");
            assert!(got == sent, "something else came");
        }
    }
}
