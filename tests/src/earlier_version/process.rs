//! The requests of a process of version 0.1.0.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Weak};
use std::time::Duration;

use redis::{Cmd, Connection, Msg, Value};

use super::answer::{Answer, all_or_none, only, signed, yes};
use super::scripts::{self, ACQUIRE, ACQUIRE_ALL, JOIN, LEAVE, PART, RELEASE, RENEW, STAY, TURN};
use super::want::Want;

const TIMEOUT: Duration = Duration::from_secs(30);
/// Interval at which the listening thread checks if its `EarlierProcess` was dropped.
const LOOK: Duration = Duration::from_millis(50);

/// A message on the channel of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// The process should request this key again, because the key is reserved for it or may be
    /// free.
    Turn(String),
    /// Another process waits in the queue for a key that this process holds.
    Wanted(String),
}

/// A process of version 0.1.0. Keys are passed as they are on the wire, with their namespace.
pub struct EarlierProcess {
    requests: Connection,
    messages: Receiver<Message>,
    prefix: String,
    name: String,
    /// Dropped together with the `EarlierProcess`, which ends the listening thread.
    _life: Arc<()>,
}

impl std::fmt::Debug for EarlierProcess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EarlierProcess").finish_non_exhaustive()
    }
}

impl EarlierProcess {
    /// Connects, loads the scripts and listens on the process's channel. `namespace` is `lock` (the
    /// default) or empty.
    ///
    /// # Panics
    ///
    /// Panics if the server refuses one of these steps.
    pub fn connect(url: &str, namespace: &str) -> Self {
        let client = redis::Client::open(url).expect("a URL");
        let connect = || client.get_connection_with_timeout(TIMEOUT);
        let mut requests = connect().expect("the server takes connections");
        requests.set_read_timeout(Some(TIMEOUT)).expect("an option");
        scripts::load(&mut requests);
        let prefix = if namespace.is_empty() {
            String::new()
        } else {
            format!("{namespace}:")
        };
        let name = random_hex();
        let channel = format!("{prefix}%leasehold:turn:{name}");
        let life = Arc::new(());
        let messages = listen(
            connect().expect("a second one"),
            &channel,
            Arc::downgrade(&life),
        );
        Self {
            requests,
            messages,
            prefix,
            name,
            _life: life,
        }
    }

    /// Returns the name of the process in queues and reservations.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Requests an exclusive or a shared lock once. With `queue`, the process gets a place in the
    /// queue if the lock is held.
    #[track_caller]
    pub fn ask(&mut self, want: &Want, token: &str, queue: bool) -> Answer {
        if want.most.is_some() {
            return self.join(want, token, queue);
        }
        let mut acquire = ACQUIRE.call(3);
        acquire
            .arg(self.fences())
            .arg(&want.key)
            .arg(self.queue(&want.key));
        acquire.arg(&self.name).arg(self.channels()).arg(want.spare);
        acquire
            .arg(millis(want.ttl))
            .arg(self.owner())
            .arg(place(queue))
            .arg(want.spare);
        acquire.arg(1).arg(token);
        let answer = only(self.run(&acquire));
        Answer::read(&answer, want.spare)
    }

    #[track_caller]
    fn join(&mut self, want: &Want, token: &str, queue: bool) -> Answer {
        let mut join = JOIN.call(4);
        join.arg(&want.key)
            .arg(self.fences())
            .arg(self.queue(&want.key));
        join.arg(self.shares(&want.key))
            .arg(token)
            .arg(millis(want.ttl));
        join.arg(want.most.unwrap_or(0))
            .arg(&self.name)
            .arg(place(queue))
            .arg(self.channels());
        let answer = self.run(&join);
        Answer::read(&answer, 0)
    }

    /// Requests several locks, each with its token, all or none. Returns their fences, or the index
    /// of the lock that another token has.
    ///
    /// # Panics
    ///
    /// Panics if the server fails.
    #[track_caller]
    pub fn ask_all(&mut self, wanted: &[(&str, &str)], ttl: Duration) -> Result<Vec<u64>, usize> {
        let mut acquire = ACQUIRE_ALL.call(1 + 2 * wanted.len());
        acquire.arg(self.fences());
        for (key, _) in wanted {
            acquire.arg(key).arg(self.queue(key));
        }
        acquire
            .arg(&self.name)
            .arg(self.channels())
            .arg(millis(ttl))
            .arg(self.owner());
        for (_, token) in wanted {
            acquire.arg(token);
        }
        all_or_none(&self.run(&acquire))
    }

    /// Renews a lock. Returns `true` if this token still had the lock.
    #[track_caller]
    pub fn renew(&mut self, want: &Want, token: &str) -> bool {
        if want.most.is_some() {
            return self.stay(&want.key, token, want.ttl);
        }
        let mut renew = RENEW.call(1);
        renew.arg(&want.key).arg(millis(want.ttl)).arg(1).arg(token);
        yes(self.run(&renew))
    }

    /// Renews a shared lock, or turns an exclusive lock of this token into a shared one. Returns
    /// `true` if this token still had the lock.
    #[track_caller]
    pub fn stay(&mut self, key: &str, token: &str, ttl: Duration) -> bool {
        let mut stay = STAY.call(3);
        stay.arg(key).arg(self.queue(key)).arg(self.shares(key));
        stay.arg(self.channels()).arg(token).arg(millis(ttl));
        yes(self.run(&stay))
    }

    /// Releases a lock. With `keep`, an exclusive lock stays locked for this time. Returns `true`
    /// if this token still had the lock.
    #[track_caller]
    pub fn release(&mut self, want: &Want, token: &str, keep: Option<Duration>) -> bool {
        if want.most.is_some() {
            return self.part(&want.key, token);
        }
        let mut release = RELEASE.call(2);
        release
            .arg(&want.key)
            .arg(self.queue(&want.key))
            .arg(self.channels());
        release.arg(keep.map_or(String::new(), |keep| millis(keep).to_string()));
        release.arg(1).arg(token);
        yes(self.run(&release))
    }

    #[track_caller]
    fn part(&mut self, key: &str, token: &str) -> bool {
        let mut part = PART.call(3);
        part.arg(key).arg(self.queue(key)).arg(self.shares(key));
        part.arg(token).arg(self.channels());
        yes(self.run(&part))
    }

    /// Releases the lock of the token `released` and requests it for `token`, in one script. If the
    /// lock is held, the process queues. Returns `true` if `released` still had the lock, and the
    /// answer for `token`.
    ///
    /// # Panics
    ///
    /// Panics if the server fails.
    #[track_caller]
    pub fn turn(&mut self, want: &Want, released: &str, token: &str) -> (bool, Answer) {
        let mut turn = TURN.call(3);
        turn.arg(self.fences())
            .arg(&want.key)
            .arg(self.queue(&want.key));
        turn.arg(&self.name).arg(self.channels()).arg(want.spare);
        turn.arg(released)
            .arg(token)
            .arg(millis(want.ttl))
            .arg(self.owner())
            .arg(place(true));
        match self.run(&turn) {
            Value::Array(answers) if answers.len() == 2 => (
                signed(&answers[0]) == 1,
                Answer::read(&answers[1], want.spare),
            ),
            other => panic!("an answer of another shape: {other:?}"),
        }
    }

    /// Leaves the queue of a key. If the key is reserved for this process, gives up the
    /// reservation.
    ///
    /// # Panics
    ///
    /// Panics if the server fails.
    #[track_caller]
    pub fn leave(&mut self, key: &str) {
        let mut leave = LEAVE.call(2);
        leave
            .arg(key)
            .arg(self.queue(key))
            .arg(&self.name)
            .arg(self.channels());
        assert!(yes(self.run(&leave)), "it always answers 1");
    }

    /// Returns the next message that arrives within `limit`.
    ///
    /// # Panics
    ///
    /// Panics if the server has closed the channel's connection.
    #[track_caller]
    pub fn receive(&mut self, limit: Duration) -> Option<Message> {
        match self.messages.recv_timeout(limit) {
            Ok(message) => Some(message),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => panic!("the server has closed the connection"),
        }
    }

    #[track_caller]
    fn run(&mut self, command: &Cmd) -> Value {
        let answer = command.query(&mut self.requests);
        answer.expect("the server takes the command")
    }

    fn owner(&self) -> String {
        format!("earlier {} {}", std::process::id(), &self.name[..4])
    }

    fn fences(&self) -> String {
        format!("{}%leasehold:fence", self.prefix)
    }

    fn queue(&self, key: &str) -> String {
        format!("{}%leasehold:queue:{key}", self.prefix)
    }

    fn shares(&self, key: &str) -> String {
        format!("{}%leasehold:shares:{key}", self.prefix)
    }

    fn channels(&self) -> String {
        format!("{}%leasehold:turn:", self.prefix)
    }
}

/// Forwards the messages on `channel` until the `EarlierProcess` is dropped, and then closes the
/// connection. Returns after the server has confirmed the subscription.
fn listen(mut connection: Connection, channel: &str, life: Weak<()>) -> Receiver<Message> {
    let (ready, is_ready) = mpsc::channel();
    let (send, messages) = mpsc::channel();
    let channel = channel.to_owned();
    std::thread::spawn(move || {
        let mut subscriber = connection.as_pubsub();
        subscriber
            .subscribe(channel)
            .expect("the server lets it subscribe");
        ready.send(()).expect("it is waited for");
        subscriber.set_read_timeout(Some(LOOK)).expect("an option");
        while life.strong_count() > 0 {
            match subscriber.get_message() {
                Ok(message) => forward(&message, &send),
                Err(error) if error.is_timeout() => {}
                Err(_) => return,
            }
        }
    });
    is_ready.recv().expect("the subscription is confirmed");
    messages
}

fn forward(message: &Msg, send: &Sender<Message>) {
    let text: String = message.get_payload().expect("text");
    let message = match text.split_at_checked(1) {
        Some(("t", key)) => Message::Turn(key.to_owned()),
        Some(("w", key)) => Message::Wanted(key.to_owned()),
        _ => return,
    };
    // An error means that the process was dropped and no longer needs the message.
    let _ = send.send(message);
}

/// Returns the argument with which a script puts the process into the queue of a held lock: `+` if
/// `queue` is true, otherwise empty.
fn place(queue: bool) -> &'static str {
    if queue { "+" } else { "" }
}

/// Returns 32 random hexadecimal digits, for a token or the name of a process.
pub fn random_hex() -> String {
    let half = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", half(), half())
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
