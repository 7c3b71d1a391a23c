//! A socket of the engine's runtime that callers' threads read, too.
//!
//! When a server answers, the runtime is told, and that wakes the engine's thread. While a caller looks for the answer itself this is a thread too
//! many: it takes a processor that the servers need, where they share one machine. So the runtime hears of a socket through a bell, which can be
//! kept from ringing meanwhile: an epoll instance that has only this socket in it, and that can be polled like any other file (epoll(7)).

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use rustix::event::{Timespec, epoll};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};

use crate::store::Attention;

/// So much is read at a time at most.
const PIECE: usize = 16 * 1024;

/// A connected stream that does not block.
#[derive(Debug)]
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    fn write(&self, buf: &[u8]) -> io::Result<usize> {
        uninterrupted(|| match self {
            Self::Tcp(stream) => (&*stream).write(buf),
            Self::Unix(stream) => (&*stream).write(buf),
        })
    }

    fn read(&self, room: &mut [u8]) -> io::Result<usize> {
        uninterrupted(|| match self {
            Self::Tcp(stream) => (&*stream).read(room),
            Self::Unix(stream) => (&*stream).read(room),
        })
    }

    fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.shutdown(how),
            Self::Unix(stream) => stream.shutdown(how),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
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

/// What the bytes of one connection go through. To be used by one task: reading and writing wait for the same bell.
#[derive(Debug)]
pub(super) struct Socket {
    ear: Arc<Ear>,
    /// What is read comes here first: the reader's own room would have to be cleared before each look, and most looks find nothing.
    piece: Box<[u8]>,
}

impl Socket {
    /// To be called in the context of the runtime that the socket is to belong to.
    pub(super) fn new(stream: Stream) -> io::Result<Self> {
        let ear = Arc::new(Ear::new(stream)?);
        let piece = vec![0; PIECE].into();
        Ok(Self { ear, piece })
    }

    /// What decides who hears of what has come.
    pub(super) fn ear(&self) -> Arc<Ear> {
        Arc::clone(&self.ear)
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { ear, piece } = self.get_mut();
        let room = buf.remaining().min(PIECE);
        let count = ready!(ear.poll_read(cx, &mut piece[..room]))?;
        buf.put_slice(&piece[..count]);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.ear.poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.ear.stream.shutdown(Shutdown::Write))
    }
}

/// Who hears of what has come.
#[derive(Debug)]
pub(super) struct Ear {
    stream: Stream,
    bell: Bell,
    /// Whether a caller looks.
    looks: AtomicBool,
    /// Whether there may be something that it has not yet read in this look.
    expects: AtomicBool,
    /// Whether the runtime is to hear of what comes.
    hears: AtomicBool,
    /// Whether more is to be written than there was room for.
    waits: AtomicBool,
}

impl Ear {
    fn new(stream: Stream) -> io::Result<Self> {
        Ok(Self {
            bell: Bell::new(&stream)?,
            stream,
            looks: AtomicBool::new(false),
            expects: AtomicBool::new(true),
            hears: AtomicBool::new(true),
            waits: AtomicBool::new(false),
        })
    }

    /// See [`LockStore::attend`](crate::store::LockStore::attend).
    pub(super) fn attend(&self, attention: Attention) {
        let (looks, hears) = match attention {
            Attention::Runtime => (false, true),
            Attention::Both => (true, true),
            Attention::Caller => (true, false),
        };
        self.looks.store(looks, Ordering::Relaxed);
        if self.hears.swap(hears, Ordering::Relaxed) != hears && self.set_bell().is_err() {
            // Perhaps nobody would hear of anything. That the stream has ended is always told.
            let _ = self.stream.shutdown(Shutdown::Both);
        }
    }

    /// Who reads from now on looks for itself, if it is to look at all.
    pub(super) fn begin_look(&self) {
        self.expects.store(true, Ordering::Relaxed);
    }

    fn set_bell(&self) -> io::Result<()> {
        let mut events = epoll::EventFlags::empty();
        events.set(epoll::EventFlags::IN, self.hears.load(Ordering::Relaxed));
        events.set(epoll::EventFlags::OUT, self.waits.load(Ordering::Relaxed));
        self.bell.set(&self.stream, events)
    }

    fn poll_read(&self, cx: &mut Context<'_>, room: &mut [u8]) -> Poll<io::Result<usize>> {
        // A caller that looks does not wait for the bell: the runtime's own thread has to wake up to hear it. And who waits to
        // write may have taken a ring for its own.
        let looks = self.looks.load(Ordering::Relaxed) && self.expects.load(Ordering::Relaxed);
        if looks || self.waits.load(Ordering::Relaxed) {
            let read = self.stream.read(room);
            // The reader asks again and again, whether or not there was anything, and where there was less than it has room for that was all.
            let more = read.as_ref().is_ok_and(|count| *count == room.len());
            self.expects.store(more, Ordering::Relaxed);
            match read {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
        }
        self.bell.poll_io(cx, || self.stream.read(room))
    }

    fn poll_write(&self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.stream.write(buf) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if !self.waits.swap(true, Ordering::Relaxed) {
                    self.set_bell()?;
                }
                self.bell.poll_io(cx, || self.stream.write(buf))
            }
            done => Poll::Ready(done),
        }
        .map(|done| {
            if self.waits.swap(false, Ordering::Relaxed) {
                self.set_bell()?;
            }
            done
        })
    }
}

/// An epoll instance, which the runtime polls.
///
/// The runtime takes no file of any kind without `unsafe`, and knows what it can do with a stream. This one is never read or written.
#[derive(Debug)]
struct Bell(tokio::net::UnixStream);

const NOW: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

/// What has been taken note of is not told again.
const ONCE: epoll::EventFlags = epoll::EventFlags::ET;

/// The only stream in it.
const STREAM: epoll::EventData = epoll::EventData::new_u64(0);

impl Bell {
    fn new(stream: &Stream) -> io::Result<Self> {
        let bell = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&bell, stream, STREAM, epoll::EventFlags::IN | ONCE)?;
        let bell = UnixStream::from(bell);
        bell.set_nonblocking(true)?;
        tokio::net::UnixStream::from_std(bell).map(Self)
    }

    /// What it rings for. If that is there already it rings at once.
    fn set(&self, stream: &Stream, events: epoll::EventFlags) -> io::Result<()> {
        // Where it has rung for the stream before, it would not ring at once until that has been taken note of.
        let _ = epoll::wait(&self.0, &mut [MaybeUninit::uninit()], Some(&NOW))?;
        Ok(epoll::modify(&self.0, stream, STREAM, events | ONCE)?)
    }

    /// Does `io` when it rings, again and again until that has something to do.
    fn poll_io<T>(
        &self,
        cx: &mut Context<'_>,
        mut io: impl FnMut() -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        loop {
            ready!(self.0.poll_read_ready(cx))?;
            match self.0.try_io(Interest::READABLE, &mut io) {
                // It has been silenced, unless it rang again meanwhile.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::net::TcpListener;
    use std::time::Duration;

    use tokio::io::AsyncReadExt;
    use tokio::time::timeout;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn connected() -> (Socket, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let stream = TcpStream::connect(address).expect("a connection");
        stream.set_nonblocking(true).expect("it does not block");
        let socket = Socket::new(Stream::Tcp(stream)).expect("a socket");
        (socket, listener.accept().expect("the other end").0)
    }

    fn polled(socket: &mut Socket, cx: &mut Context<'_>) -> Option<Vec<u8>> {
        let mut room = [0; PIECE];
        let mut buf = ReadBuf::new(&mut room);
        match Pin::new(socket).poll_read(cx, &mut buf) {
            Poll::Ready(done) => done
                .map(|()| Some(buf.filled().to_vec()))
                .expect("no error"),
            Poll::Pending => None,
        }
    }

    /// Waits until the runtime tells that something has come.
    async fn hear(socket: &mut Socket) -> Vec<u8> {
        let hearing = poll_fn(|cx| polled(socket, cx).map_or(Poll::Pending, Poll::Ready));
        timeout(LONG, hearing).await.expect("it is told of")
    }

    /// Looks until something has come, as a caller does: nobody is told.
    async fn look(socket: &mut Socket) -> Vec<u8> {
        let looking = async {
            loop {
                socket.ear().begin_look();
                let seen = poll_fn(|_| {
                    let cx = &mut Context::from_waker(std::task::Waker::noop());
                    Poll::Ready(polled(socket, cx))
                });
                if let Some(seen) = seen.await {
                    return seen;
                }
                tokio::task::yield_now().await;
            }
        };
        timeout(LONG, looking).await.expect("it comes")
    }

    #[tokio::test]
    async fn the_runtime_hears_of_what_comes_but_while_a_caller_looks_alone() {
        let (mut socket, mut other) = connected();
        let (told, count) = counted();
        let cx = &mut Context::from_waker(&told);
        other.write_all(b"heard").expect("written");
        assert_eq!(hear(&mut socket).await, b"heard");
        let ear = socket.ear();
        ear.attend(Attention::Caller);
        assert_eq!(polled(&mut socket, cx), None);
        other.write_all(b"looked for").expect("written");
        assert_eq!(look(&mut socket).await, b"looked for");
        assert_eq!(polled(&mut socket, cx), None);
        other.write_all(b"left").expect("written");
        // What comes after it by another way is heard: the first was not on its way any more.
        let (mut after, mut signal) = connected();
        signal.write_all(b"!").expect("written");
        timeout(LONG, after.read_u8())
            .await
            .expect("heard")
            .expect("read");
        assert_eq!(count.load(Ordering::SeqCst), 0, "nobody is told");
        ear.attend(Attention::Runtime);
        assert_eq!(hear(&mut socket).await, b"left");
    }

    #[tokio::test]
    async fn that_the_other_end_has_gone_is_told() {
        for attention in [Attention::Runtime, Attention::Both] {
            let (mut socket, other) = connected();
            socket.ear().attend(attention);
            drop(other);
            let read = timeout(LONG, socket.read(&mut [0; 4])).await;
            assert_eq!(read.expect("told").expect("no error"), 0);
        }
    }

    /// Fails if who has read less than there was room for does not find out that the other end has gone.
    #[tokio::test]
    async fn the_end_is_seen_behind_what_came_before_it() {
        for attention in [Attention::Runtime, Attention::Both, Attention::Caller] {
            let (mut socket, mut other) = connected();
            socket.ear().attend(attention);
            other.write_all(b"last").expect("written");
            drop(other);
            for came in [&b"last"[..], b""] {
                let read = if attention == Attention::Caller {
                    look(&mut socket).await
                } else {
                    hear(&mut socket).await
                };
                assert_eq!(read, came, "{attention:?}");
            }
        }
    }

    /// The other end sends everything back, and reads nothing while it cannot: reading and writing wait at the same time, again and again.
    #[tokio::test]
    async fn what_does_not_fit_waits_for_room_and_keeps_nobody_from_reading() {
        let (mut socket, mut other) = connected();
        std::thread::spawn(move || {
            let mut back = other.try_clone().expect("the same stream");
            io::copy(&mut other, &mut back)
        });
        let sent: Vec<u8> = (0..=u8::MAX).cycle().take(64_000_000).collect();
        let (mut done, mut got) = (0, Vec::new());
        let moving = poll_fn(|cx| {
            while done < sent.len()
                && let Poll::Ready(count) = Pin::new(&mut socket).poll_write(cx, &sent[done..])
            {
                done += count.expect("written");
            }
            while let Some(read) = polled(&mut socket, cx) {
                got.extend(read);
                if got.len() == sent.len() {
                    return Poll::Ready(());
                }
            }
            Poll::Pending
        });
        timeout(LONG, moving)
            .await
            .expect("somebody waits for ever");
        assert!(got == sent, "something else came");
    }

    /// A waker, and how often it was called.
    fn counted() -> (std::task::Waker, Arc<std::sync::atomic::AtomicUsize>) {
        struct Count(Arc<std::sync::atomic::AtomicUsize>);
        impl std::task::Wake for Count {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Ordering::SeqCst);
            }
        }
        let count = Arc::default();
        (Arc::new(Count(Arc::clone(&count))).into(), count)
    }
}
