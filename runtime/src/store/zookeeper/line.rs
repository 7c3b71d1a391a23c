//! One connection to a server: requests with their answers, and watches.
//!
//! Requests are sent in the order in which callers make them, and the server carries them out in
//! that order. When a connection ends, all of its requests fail, and all of its watches end. The
//! session's next connection does not repeat them.

use std::future::pending;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::{Either, select};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::asked::{Asked, Change, Request, header};
use super::error::Error;
use super::handshake::{self, CLOSE, Granted, Ticket};
use super::jute::{In, Out};
use crate::base::seeded::seeded;

const PING: i32 = 11;
const AUTH: i32 = 100;

/// Fixed request numbers of pings and of logins. All other requests are numbered in sequence.
const PING_NUMBER: i32 = -2;
const AUTH_NUMBER: i32 = -4;

/// Once a write has this many bytes, further requests wait for the next write.
const BATCH: usize = 64 * 1_024;

/// The space for each read, in bytes.
const READ: usize = 16 * 1_024;

/// The longest accepted answer, in bytes: a list of a few million names.
const LONGEST: usize = 256 * 1_024 * 1_024;

/// A connection. If the last reference to an open connection is dropped, its session is closed,
/// except while the session is being resumed.
#[derive(Debug)]
pub(super) struct Line {
    requests: UnboundedSender<Request>,
    /// False until a resumed session is [kept](Self::keeps_its_session). If this attempt fails, the
    /// session continues on another connection.
    closes: Arc<AtomicBool>,
}

/// Waits for one change of a znode.
#[derive(Debug)]
pub(super) struct Watch(oneshot::Receiver<()>);

impl Watch {
    /// Returns after the change, or at the end of the connection.
    pub(super) async fn changed(self) {
        let _ = self.0.await;
    }
}

impl Line {
    /// Connects to a server and opens a session with the time-out `asked`. The connection ends if
    /// the server is silent for `silence`.
    pub(super) async fn open(
        server: &str,
        digests: &[String],
        asked: Duration,
        silence: Duration,
    ) -> Result<(Self, Granted), Error> {
        let connecting = timeout(silence, handshake::connected(server));
        let stream = connecting.await.map_err(|_| Error::Timeout)??;
        Self::begin(stream, digests, asked, None, silence).await
    }

    /// Opens or resumes a session on a new connection, and logs in as each user in `digests`.
    pub(super) async fn begin(
        mut stream: TcpStream,
        digests: &[String],
        asked: Duration,
        resumed: Option<&Ticket>,
        silence: Duration,
    ) -> Result<(Self, Granted), Error> {
        let asked = i32::try_from(asked.as_millis()).unwrap_or(i32::MAX);
        let shaking = timeout(silence, handshake::shake(&mut stream, asked, resumed));
        let granted = shaking.await.map_err(|_| Error::Timeout)??;
        for digest in digests {
            let request = Out::default().int(AUTH_NUMBER).int(AUTH).int(0);
            let request = request.text("digest").text(digest);
            let introducing = timeout(silence, handshake::exchange(&mut stream, &request));
            let answer = introducing.await.map_err(|_| Error::Timeout)??;
            header(&mut In(&answer)).and_then(|(_, outcome)| outcome)?;
        }
        let (sender, requests) = unbounded_channel();
        let closes = Arc::new(AtomicBool::new(resumed.is_none() || seeded!(AttemptsClose)));
        tokio::spawn(serve(stream, requests, silence, Arc::clone(&closes)));
        let line = Self {
            requests: sender,
            closes,
        };
        Ok((line, granted))
    }

    /// Records that the resumed session continues on this connection.
    pub(super) fn keeps_its_session(&self) {
        self.closes.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_over(&self) -> bool {
        self.requests.is_closed()
    }

    /// Waits for the end of the connection.
    pub(super) async fn over(&self) {
        self.requests.closed().await;
    }

    /// Sends a request at once, before the future is polled. The future returns the answer.
    pub(super) fn ask(
        &self,
        code: i32,
        body: Out,
    ) -> impl Future<Output = Result<Vec<u8>, Error>> + Send + use<> {
        self.send(code, body, None)
    }

    /// Like `ask`, but the request also watches `path`.
    pub(super) fn watch(
        &self,
        code: i32,
        path: &str,
    ) -> (
        impl Future<Output = Result<Vec<u8>, Error>> + Send + use<>,
        Watch,
    ) {
        let (change, watch) = oneshot::channel();
        let body = Out::default().text(path).flag(true);
        let asking = self.send(code, body, Some((path.to_owned(), change)));
        (asking, Watch(watch))
    }

    fn send(
        &self,
        code: i32,
        body: Out,
        watch: Option<(String, Change)>,
    ) -> impl Future<Output = Result<Vec<u8>, Error>> + Send + use<> {
        let (answer, answered) = oneshot::channel();
        let request = Request {
            code,
            body,
            answer,
            watch,
        };
        // On an ended connection, the request is dropped with the sender of its answer. The future
        // then returns an error.
        let _ = self.requests.send(request);
        async move {
            let lost = || Error::Disconnected("it had ended before".to_owned());
            answered.await.unwrap_or_else(|_| Err(lost()))
        }
    }
}

fn locked(asked: &Mutex<Asked>) -> MutexGuard<'_, Asked> {
    asked.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Serves a connection until it ends.
async fn serve(
    stream: TcpStream,
    mut requests: UnboundedReceiver<Request>,
    silence: Duration,
    closes: Arc<AtomicBool>,
) {
    let asked = Mutex::new(Asked::default());
    let error = {
        let (reading, writing) = stream.into_split();
        let reads = pin!(read(reading, &asked, silence));
        let writes = pin!(write(writing, &mut requests, &asked, silence, &closes));
        match select(reads, writes).await {
            Either::Left((error, _)) | Either::Right((error, _)) => error,
        }
    };
    // Closes the channel before any answer is sent, because a caller that gets an error must find
    // the connection over.
    requests.close();
    while let Ok(request) = requests.try_recv() {
        let _ = request.answer.send(Err(error.clone()));
    }
    asked
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner)
        .end(&error);
}

async fn write(
    mut writing: OwnedWriteHalf,
    requests: &mut UnboundedReceiver<Request>,
    asked: &Mutex<Asked>,
    silence: Duration,
    closes: &AtomicBool,
) -> Error {
    let mut frames = Vec::new();
    loop {
        frames.clear();
        let next = timeout(silence * 3 / 8, requests.recv()).await;
        let is_last = matches!(next, Ok(None));
        match next {
            Ok(Some(request)) => locked(asked).request(request, &mut frames),
            Ok(None) if !closes.load(Ordering::SeqCst) => {
                return Error::Disconnected("its session was not resumed".to_owned());
            }
            Ok(None) => locked(asked).signal(0, CLOSE, &mut frames),
            Err(_) => locked(asked).signal(PING_NUMBER, PING, &mut frames),
        }
        while frames.len() < BATCH
            && let Ok(request) = requests.try_recv()
        {
            locked(asked).request(request, &mut frames);
        }
        if let Err(error) = writing.write_all(&frames).await {
            return Error::disconnected(&error);
        }
        if is_last {
            // The server answers the request to close the session, and then ends the connection.
            // `serve` returns when `read` notices the end of the connection.
            return pending().await;
        }
    }
}

async fn read(mut reading: OwnedReadHalf, asked: &Mutex<Asked>, silence: Duration) -> Error {
    let mut buffer = Vec::new();
    loop {
        buffer.reserve(READ);
        let left = locked(asked).left(silence);
        match timeout(left, reading.read_buf(&mut buffer)).await {
            Ok(Ok(0)) => return Error::Disconnected("the server closed it".to_owned()),
            Ok(Ok(_)) => locked(asked).received(),
            Ok(Err(error)) => return Error::disconnected(&error),
            // Computes the remaining time again, because a request sent during the wait may have
            // restarted the count of the silence.
            Err(_) if locked(asked).left(silence).is_zero() => {
                return Error::Disconnected("the server was silent".to_owned());
            }
            Err(_) => {}
        }
        if let Err(error) = receive(&mut buffer, asked) {
            return error;
        }
    }
}

/// Handles all complete frames in the buffer, and removes them.
fn receive(buffer: &mut Vec<u8>, asked: &Mutex<Asked>) -> Result<(), Error> {
    let mut rest = buffer.as_slice();
    while let Some((length, behind)) = rest.split_first_chunk() {
        let length = usize::try_from(i32::from_be_bytes(*length));
        let length = length.ok().filter(|length| *length <= LONGEST);
        let length = length.ok_or(Error::Garbled)?;
        let Some((frame, behind)) = behind.split_at_checked(length) else {
            break;
        };
        locked(asked).receive(frame)?;
        rest = behind;
    }
    let taken = buffer.len() - rest.len();
    buffer.drain(..taken);
    Ok(())
}

/// Opens a session, fails to resume it on a second connection, and returns true if a third
/// connection can then resume it.
#[cfg(feature = "__test")]
pub(crate) async fn survives_a_failed_attempt(server: &str) -> bool {
    const LASTS: Duration = Duration::from_secs(4);
    const SILENCE: Duration = Duration::from_secs(1);
    let Ok((_line, granted)) = Line::open(server, &[], LASTS, SILENCE).await else {
        return false;
    };
    let resumes = || async {
        let stream = handshake::connected(server).await?;
        Line::begin(stream, &[], LASTS, Some(&granted.ticket), SILENCE).await
    };
    drop(resumes().await);
    // After this pause, the server has received everything that the failed attempt has sent.
    tokio::time::sleep(SILENCE / 2).await;
    resumes().await.is_ok()
}
