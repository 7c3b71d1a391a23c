//! Unanswered requests of a connection, and its watches.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::error::Error;
use super::jute::{In, Out};
use crate::base::seeded::seeded;

/// The code of the request `exists`. The server sets the watch of this request even if the znode
/// does not exist.
pub(super) const EXISTS: i32 = 3;

/// The number at the start of a notification about a watched path. An answer starts with the number
/// of its request instead.
const NOTIFICATION: i32 = -1;

/// Sender of the answer to a request.
pub(super) type Reply = oneshot::Sender<Result<Vec<u8>, Error>>;

/// Sender that reports the change of a watched path.
pub(super) type Change = oneshot::Sender<()>;

/// A request that has no number yet.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) code: i32,
    pub(super) body: Out,
    pub(super) answer: Reply,
    /// The path that the request watches.
    pub(super) watch: Option<(String, Change)>,
}

/// Unanswered requests, and watches.
#[derive(Default)]
pub(super) struct Asked {
    number: i32,
    answers: HashMap<i32, Asking>,
    watches: HashMap<String, Vec<(i32, Change)>>,
    /// Start of the server's silence: the arrival of the last bytes, or the sending of the first
    /// unanswered request, whichever is later.
    since: Option<Instant>,
}

struct Asking {
    code: i32,
    /// `None` if no caller waits for the answer.
    answer: Option<Reply>,
    watched: Option<String>,
}

impl Asked {
    fn expects(&mut self, number: i32, asking: Asking) {
        if self.answers.is_empty() {
            self.since = Some(Instant::now());
        }
        self.answers.insert(number, asking);
    }

    /// Appends a request to `frames`, which are sent next.
    pub(super) fn request(&mut self, request: Request, frames: &mut Vec<u8>) {
        self.number = self.number.checked_add(1).unwrap_or(1);
        let (number, code) = (self.number, request.code);
        let whole = Out::default().int(number).int(code).then(&request.body);
        whole.frame_to(frames);
        let watched = request.watch.map(|(path, change)| {
            // The watch is recorded now, because the change may arrive before the answer.
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

    /// Appends a request, such as a ping, whose answer no caller waits for. Does nothing while a
    /// request with this number is unanswered.
    pub(super) fn signal(&mut self, number: i32, code: i32, frames: &mut Vec<u8>) {
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

    pub(super) fn receive(&mut self, frame: &[u8]) -> Result<(), Error> {
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
        if let Some(path) = asking.watched.filter(|_| !watches) {
            self.unwatch(path, number);
        }
        if let Some(answer) = asking.answer {
            let _ = answer.send(outcome.map(|()| frame.0.to_vec()));
        }
        Ok(())
    }

    /// Removes a watch that the server refused.
    fn unwatch(&mut self, path: String, number: i32) {
        if let Entry::Occupied(mut watches) = self.watches.entry(path) {
            watches.get_mut().retain(|(asked, _)| *asked != number);
            if watches.get().is_empty() {
                watches.remove();
            }
        }
    }

    /// Records that bytes have arrived.
    pub(super) fn received(&mut self) {
        self.since = Some(Instant::now());
    }

    /// Fails each request and ends each watch, because the connection has ended. Dropping the
    /// senders of the watches wakes the watchers.
    pub(super) fn end(self, error: &Error) {
        let answers = self.answers.into_values();
        for answer in answers.filter_map(|asking| asking.answer) {
            let _ = answer.send(Err(error.clone()));
        }
        if seeded!(WatchesForgotten) {
            std::mem::forget(self.watches);
        }
    }

    /// Returns the time until the server counts as silent: the rest of `silence`, counted from the
    /// start of the server's silence. Without unanswered requests, returns the whole `silence`.
    pub(super) fn left(&self, silence: Duration) -> Duration {
        let since = self.since.filter(|_| !self.answers.is_empty());
        since.map_or(silence, |since| silence.saturating_sub(since.elapsed()))
    }
}

/// Reads the header of an answer: the number of the request, and the request's error, if any.
pub(super) fn header(frame: &mut In<'_>) -> Result<(i32, Result<(), Error>), Error> {
    let (number, _transaction, code) = (frame.int()?, frame.long()?, frame.int()?);
    let outcome = if code == 0 {
        Ok(())
    } else {
        Err(Error::of_code(code))
    };
    Ok((number, outcome))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records a request that watches `/a`. Returns the receivers of its answer and of a change.
    fn watches(
        asked: &mut Asked,
        code: i32,
    ) -> (
        oneshot::Receiver<Result<Vec<u8>, Error>>,
        oneshot::Receiver<()>,
    ) {
        let (answer, answered) = oneshot::channel();
        let (change, changed) = oneshot::channel();
        let request = Request {
            code,
            body: Out::default(),
            answer,
            watch: Some(("/a".to_owned(), change)),
        };
        asked.request(request, &mut Vec::new());
        (answered, changed)
    }

    fn answer(number: i32, code: i32) -> Vec<u8> {
        let mut frame = Vec::new();
        Out::default()
            .int(number)
            .long(1)
            .int(code)
            .frame_to(&mut frame);
        frame.split_off(4)
    }

    fn change(path: &str) -> Vec<u8> {
        let mut frame = Vec::new();
        let header = Out::default().int(NOTIFICATION).long(-1).int(0);
        header.int(3).int(3).text(path).frame_to(&mut frame);
        frame.split_off(4)
    }

    #[test]
    fn a_change_wakes_the_watchers_of_its_path() {
        const NO_NODE: i32 = -101;
        let mut asked = Asked::default();
        let (mut read, mut changed) = watches(&mut asked, EXISTS);
        assert_eq!(asked.receive(&answer(1, NO_NODE)), Ok(()));
        assert_eq!(read.try_recv(), Ok(Err(Error::NoNode)));
        assert_eq!(asked.receive(&change("/b")), Ok(()));
        assert!(changed.try_recv().is_err(), "another path");
        assert_eq!(asked.receive(&change("/a")), Ok(()));
        assert_eq!(changed.try_recv(), Ok(()));

        let (mut read, _changed) = watches(&mut asked, EXISTS + 1);
        assert_eq!(asked.receive(&answer(2, NO_NODE)), Ok(()));
        assert_eq!(read.try_recv(), Ok(Err(Error::NoNode)));
        assert!(asked.watches.is_empty(), "it was refused");
    }

    #[test]
    fn a_lost_connection_fails_requests_and_wakes_watchers() {
        let mut asked = Asked::default();
        let (mut read, mut changed) = watches(&mut asked, EXISTS);
        asked.end(&Error::Timeout);
        assert_eq!(read.try_recv(), Ok(Err(Error::Timeout)));
        let woken = changed.try_recv();
        assert_eq!(woken, Err(oneshot::error::TryRecvError::Closed));
    }

    #[test]
    fn unexpected_frames_are_refused() {
        let mut asked = Asked::default();
        let (_read, _changed) = watches(&mut asked, EXISTS);
        assert_eq!(asked.receive(&answer(7, 0)), Err(Error::Garbled));
        assert_eq!(asked.receive(b"HTTP/1.1"), Err(Error::Garbled));
        assert_eq!(asked.receive(&answer(1, -112)), Err(Error::SessionExpired));
    }
}
