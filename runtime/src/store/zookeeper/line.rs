//! One connection to a server: requests with their answers, and watches.
//!
//! Requests leave in the order in which they are asked for, and the server carries them out in that
//! order. A connection ends once, with all of its requests and watches. Nothing is sent again: the
//! next connection of the session begins without them, however many there were.

use std::collections::HashMap;
use std::future::pending;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::{Either, select};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use super::error::Error;
use super::handshake::{self, CLOSE, Granted, Ticket};
use super::jute::{In, Out};
use crate::base::seeded::seeded;

pub(super) const EXISTS: i32 = 3;
const PING: i32 = 11;
const AUTH: i32 = 100;

/// Numbers of answers that belong to no numbered request.
const NOTIFICATION: i32 = -1;
const PING_NUMBER: i32 = -2;
const AUTH_NUMBER: i32 = -4;

/// Further requests wait for the next write once this many bytes leave.
const BATCH: usize = 64 * 1_024;

/// The space for each read.
const READ: usize = 16 * 1_024;

/// The longest answer: a list of a few million names.
const LONGEST: usize = 256 * 1_024 * 1_024;

/// A connection. The session is closed when the last owner of its connection drops that.
#[derive(Debug)]
pub(super) struct Line {
    requests: UnboundedSender<Request>,
}

/// A request without its number.
#[derive(Debug)]
struct Request {
    code: i32,
    body: Out,
    answer: oneshot::Sender<Result<Vec<u8>, Error>>,
    watch: Option<(String, oneshot::Sender<()>)>,
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
    /// Connects to a server and opens a session, or resumes one. A server that is silent for
    /// `silence` loses the connection.
    pub(super) async fn open(
        server: &str,
        digest: Option<&str>,
        asked: Duration,
        silence: Duration,
    ) -> Result<(Self, Granted), Error> {
        let connecting = timeout(silence, handshake::connected(server));
        let stream = connecting.await.map_err(|_| Error::Timeout)??;
        Self::begin(stream, digest, asked, None, silence).await
    }

    /// Opens or resumes a session on an unused connection.
    pub(super) async fn begin(
        mut stream: TcpStream,
        digest: Option<&str>,
        asked: Duration,
        resumed: Option<&Ticket>,
        silence: Duration,
    ) -> Result<(Self, Granted), Error> {
        let asked = i32::try_from(asked.as_millis()).unwrap_or(i32::MAX);
        let shaking = timeout(silence, handshake::shake(&mut stream, asked, resumed));
        let granted = shaking.await.map_err(|_| Error::Timeout)??;
        if let Some(digest) = digest {
            let request = Out::default().int(AUTH_NUMBER).int(AUTH).int(0);
            let request = request.text("digest").text(digest);
            let introducing = timeout(silence, handshake::exchange(&mut stream, &request));
            let answer = introducing.await.map_err(|_| Error::Timeout)??;
            header(&mut In(&answer)).and_then(|(_, outcome)| outcome)?;
        }
        let (sender, requests) = unbounded_channel();
        tokio::spawn(serve(stream, requests, silence));
        Ok((Self { requests: sender }, granted))
    }

    pub(super) fn is_over(&self) -> bool {
        self.requests.is_closed()
    }

    /// Waits for the end of the connection.
    pub(super) async fn over(&self) {
        self.requests.closed().await;
    }

    /// Sends a request before this returns, and returns its answer.
    pub(super) fn ask(
        &self,
        code: i32,
        body: Out,
    ) -> impl Future<Output = Result<Vec<u8>, Error>> + Send + use<> {
        self.send(code, body, None)
    }

    /// The same for a request that watches a path.
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
        watch: Option<(String, oneshot::Sender<()>)>,
    ) -> impl Future<Output = Result<Vec<u8>, Error>> + Send + use<> {
        let (answer, answered) = oneshot::channel();
        let request = Request {
            code,
            body,
            answer,
            watch,
        };
        // On a connection that is over the request is dropped, and the answer with it.
        let _ = self.requests.send(request);
        async move {
            let lost = || Error::Disconnected("it had ended before".to_owned());
            answered.await.unwrap_or_else(|_| Err(lost()))
        }
    }
}

/// Requests without an answer, and watches.
#[derive(Default)]
struct Asked {
    number: i32,
    answers: HashMap<i32, Asking>,
    watches: HashMap<String, Vec<(i32, oneshot::Sender<()>)>>,
    /// The last answer, or the first request after all were answered.
    since: Option<Instant>,
}

struct Asking {
    code: i32,
    /// None if nobody waits.
    answer: Option<oneshot::Sender<Result<Vec<u8>, Error>>>,
    watched: Option<String>,
}

impl Asked {
    fn expects(&mut self, number: i32, asking: Asking) {
        if self.answers.is_empty() {
            self.since = Some(Instant::now());
        }
        self.answers.insert(number, asking);
    }

    /// Appends a request to what leaves next.
    fn request(&mut self, request: Request, frames: &mut Vec<u8>) {
        self.number = self.number.checked_add(1).unwrap_or(1);
        let (number, code) = (self.number, request.code);
        let whole = Out::default().int(number).int(code).then(&request.body);
        whole.frame_to(frames);
        let watched = request.watch.map(|(path, change)| {
            // The change may arrive before the answer.
            let watches = self.watches.entry(path.clone()).or_default();
            watches.retain(|(_, change)| !change.is_closed());
            watches.push((number, change));
            path
        });
        let answer = Some(request.answer);
        self.expects(
            number,
            Asking {
                code,
                answer,
                watched,
            },
        );
    }

    /// Appends a request that nobody waits for.
    fn signal(&mut self, number: i32, code: i32, frames: &mut Vec<u8>) {
        if self.answers.contains_key(&number) {
            return;
        }
        Out::default().int(number).int(code).frame_to(frames);
        self.expects(
            number,
            Asking {
                code,
                answer: None,
                watched: None,
            },
        );
    }

    fn receive(&mut self, frame: &[u8]) -> Result<(), Error> {
        let mut frame = In(frame);
        let (number, outcome) = header(&mut frame)?;
        if number == NOTIFICATION {
            let (_type, _state) = (frame.int()?, frame.int()?);
            for (_, change) in self.watches.remove(&frame.text()?).unwrap_or_default() {
                let _ = change.send(());
            }
            return Ok(());
        }
        if outcome == Err(Error::SessionExpired) {
            return Err(Error::SessionExpired);
        }
        let asking = self.answers.remove(&number).ok_or(Error::Garbled)?;
        let watches = match &outcome {
            Ok(()) => true,
            Err(error) => *error == Error::NoNode && asking.code == EXISTS,
        };
        if let Some(path) = asking.watched.filter(|_| !watches)
            && let Some(others) = self.watches.get_mut(&path)
        {
            others.retain(|(asked, _)| *asked != number);
            if others.is_empty() {
                self.watches.remove(&path);
            }
        }
        if let Some(answer) = asking.answer {
            let _ = answer.send(outcome.map(|()| frame.0.to_vec()));
        }
        Ok(())
    }

    /// The time that is left until the server counts as silent.
    fn left(&self, silence: Duration) -> Duration {
        let since = self.since.filter(|_| !self.answers.is_empty());
        since.map_or(silence, |since| silence.saturating_sub(since.elapsed()))
    }
}

/// The number of the request, and its error.
fn header(frame: &mut In<'_>) -> Result<(i32, Result<(), Error>), Error> {
    let (number, _transaction, code) = (frame.int()?, frame.long()?, frame.int()?);
    let outcome = if code == 0 {
        Ok(())
    } else {
        Err(Error::of_code(code))
    };
    Ok((number, outcome))
}

fn locked(asked: &Mutex<Asked>) -> MutexGuard<'_, Asked> {
    asked.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Serves a connection until it ends.
async fn serve(stream: TcpStream, mut requests: UnboundedReceiver<Request>, silence: Duration) {
    let asked = Mutex::new(Asked::default());
    let error = {
        let (reading, writing) = stream.into_split();
        let reads = pin!(read(reading, &asked, silence));
        let writes = pin!(write(writing, &mut requests, &asked, silence));
        match select(reads, writes).await {
            Either::Left((error, _)) | Either::Right((error, _)) => error,
        }
    };
    // Whoever gets an error finds the connection over.
    requests.close();
    let mut asked = asked.into_inner().unwrap_or_else(PoisonError::into_inner);
    let answers = asked
        .answers
        .drain()
        .filter_map(|(_, asking)| asking.answer);
    for answer in answers {
        let _ = answer.send(Err(error.clone()));
    }
    while let Ok(request) = requests.try_recv() {
        let _ = request.answer.send(Err(error.clone()));
    }
    if seeded!(WatchesForgotten) {
        std::mem::forget(asked.watches);
    }
}

async fn write(
    mut writing: OwnedWriteHalf,
    requests: &mut UnboundedReceiver<Request>,
    asked: &Mutex<Asked>,
    silence: Duration,
) -> Error {
    let mut frames = Vec::new();
    loop {
        frames.clear();
        let next = timeout(silence * 3 / 8, requests.recv()).await;
        let closes = matches!(next, Ok(None));
        match next {
            Ok(Some(request)) => locked(asked).request(request, &mut frames),
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
        if closes {
            // The server answers, and ends the connection.
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
            Ok(Ok(_)) => locked(asked).since = Some(Instant::now()),
            Ok(Err(error)) => return Error::disconnected(&error),
            // A request may have left after the wait began.
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

/// Takes the whole frames out of the buffer.
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
