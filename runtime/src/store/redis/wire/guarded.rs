//! A stream of which only replies are read.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use redis::RedisError;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::framer::Framer;
use crate::store::redis::garbage::Garbage;

/// The most bytes of one read.
const PIECE: usize = 16 * 1024;

/// A stream that gives its reader replies in whole lines, and ends with an error where other bytes
/// come.
#[derive(Debug)]
pub(crate) struct Guarded<S> {
    stream: S,
    framer: Framer,
    piece: Box<[u8]>,
    verdict: Verdict,
}

/// What came instead of a reply. Requests that wait for several replies learn from the crate only
/// that the connection has ended.
#[derive(Debug, Clone, Default)]
pub(crate) struct Verdict(Arc<OnceLock<Garbage>>);

impl Verdict {
    /// The real reason why a connection has ended with `error`.
    pub(crate) fn explain(&self, error: RedisError) -> RedisError {
        match self.0.get() {
            Some(garbage) => refused(garbage.clone()).into(),
            None => error,
        }
    }
}

impl<S> Guarded<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self {
            stream,
            framer: Framer::new(),
            piece: vec![0; PIECE].into(),
            verdict: Verdict::default(),
        }
    }

    pub(crate) fn verdict(&self) -> Verdict {
        self.verdict.clone()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Guarded<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            let ready = this.framer.ready();
            let count = ready.len().min(buf.remaining());
            if 0 < count {
                buf.put_slice(&ready[..count]);
                this.framer.take(count);
                return Poll::Ready(Ok(()));
            }
            // The error comes behind the replies that came before it.
            if let Some(garbage) = this.verdict.0.get() {
                return Poll::Ready(Err(refused(garbage.clone())));
            }
            let room = buf.remaining().min(PIECE);
            let mut piece = ReadBuf::new(&mut this.piece[..room]);
            ready!(Pin::new(&mut this.stream).poll_read(cx, &mut piece))?;
            if piece.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            if let Err(garbage) = this.framer.accept(piece.filled()) {
                // Nothing is read after it.
                let _ = this.verdict.0.set(garbage);
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Guarded<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

/// An error of a kind that ends the connection at once.
fn refused(garbage: Garbage) -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, garbage)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::timeout;

    use super::*;
    use crate::store::redis::garbage::garbage_in;

    const LONG: Duration = Duration::from_secs(60);

    /// Fails if a reader gets a part of a line, which its parser would begin anew each time. Fails
    /// if it waits for bytes that have come.
    #[tokio::test]
    async fn a_reader_gets_whole_lines_as_they_come() {
        let (stream, mut other) = duplex(1024);
        let mut guarded = Guarded::new(stream);
        let mut room = [0; 64];
        other.write_all(b"+OK\r\n:1").await.expect("written");
        let count = guarded.read(&mut room).await.expect("a reply");
        assert_eq!(&room[..count], b"+OK\r\n");
        let rest = timeout(Duration::from_millis(20), guarded.read(&mut room)).await;
        assert!(rest.is_err(), "half a line");
        other.write_all(b"2\r\n").await.expect("written");
        let read = timeout(LONG, guarded.read(&mut room[..3])).await;
        assert_eq!(read.expect("in time").expect("a reply"), 3);
        assert_eq!(&room[..3], b":12");
        let read = timeout(LONG, guarded.read(&mut room)).await;
        assert_eq!(read.expect("in time").expect("the rest"), 2);
        drop(other);
        let end = timeout(LONG, guarded.read(&mut room)).await;
        assert_eq!(end.expect("in time").expect("the end"), 0);
    }

    /// Fails if the replies before the garbage are lost, or if a read after the first does not
    /// report it.
    #[tokio::test]
    async fn garbage_is_told_behind_what_came_before_it() {
        let (stream, mut other) = duplex(1024);
        let mut guarded = Guarded::new(stream);
        other.write_all(b"+OK\r\nHTTP/1.1").await.expect("written");
        let mut room = [0; 64];
        assert_eq!(guarded.read(&mut room).await.expect("a reply"), 5);
        for _ in 0..2 {
            let error = guarded.read(&mut room).await.expect_err("garbage");
            let error = RedisError::from(error);
            let what = garbage_in(&error).expect("it is told").to_string();
            assert!(what.contains("0x48"), "{what}");
        }
    }
}
