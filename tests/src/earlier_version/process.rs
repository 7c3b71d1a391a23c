//! The requests of a process.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Weak};
use std::time::Duration;

use redis::{Cmd, Connection, Msg, Value};

use super::answer::{Answer, all_or_none, only, signed, yes};
use super::scripts::{self, ACQUIRE, ACQUIRE_ALL, JOIN, LEAVE, PART, RELEASE, RENEW, STAY, TURN};
use super::want::Want;

const TIMEOUT: Duration = Duration::from_secs(30);
/// Interval at which the listening thread checks whether its process is gone.
const LOOK: Duration = Duration::from_millis(50);

/// A message on a process's channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// The key was handed to this process, or the process should look again.
    Turn(String),
    /// Another process queues for a key that this one has.
    Wanted(String),
}

/// A process of version 0.1.0. Keys are passed as they are on the wire, with their namespace.
pub struct EarlierProcess {
    requests: Connection,
    messages: Receiver<Message>,
    prefix: String,
    name: String,
    /// Dropped with the process; ends the listening thread.
    _life: Arc<()>,
}

impl std::fmt::Debug for EarlierProcess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EarlierProcess").finish_non_exhaustive()
    }
}

impl EarlierProcess {
    /// Connects, loads the scripts and listens on the process's channel. The namespace is `lock`,
    /// the default, or empty.
    ///
    /// # Panics
    ///
    /// Panics if the server refuses any of this.
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

    /// The name of the process in queues and claims.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Requests a lock once, or a share of it. With `queue`, the process gets a place in the queue
    /// if the lock is held.
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

    /// Renews a lock. Returns `true` if it was still this token's.
    #[track_caller]
    pub fn renew(&mut self, want: &Want, token: &str) -> bool {
        if want.most.is_some() {
            return self.stay(&want.key, token, want.ttl);
        }
        let mut renew = RENEW.call(1);
        renew.arg(&want.key).arg(millis(want.ttl)).arg(1).arg(token);
        yes(self.run(&renew))
    }

    /// Renews a share, or makes a share of a lock that this token has alone. Returns `true` if it
    /// was still this token's.
    #[track_caller]
    pub fn stay(&mut self, key: &str, token: &str, ttl: Duration) -> bool {
        let mut stay = STAY.call(3);
        stay.arg(key).arg(self.queue(key)).arg(self.shares(key));
        stay.arg(self.channels()).arg(token).arg(millis(ttl));
        yes(self.run(&stay))
    }

    /// Releases a lock or a share, or lets the lock stay for `keep`. Returns `true` if it was still
    /// this token's.
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

    /// Releases a lock and requests it again in one step, with a place in the queue. Returns `true`
    /// if it was still `released`'s, and the answer for `token`.
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

    /// Gives up the place in a queue, and the lock if it was handed to this process.
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
    pub fn heard(&mut self, limit: Duration) -> Option<Message> {
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

/// Forwards the messages on `channel` while the process lives, and then closes the connection.
/// Returns once the server has confirmed the subscription.
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
    // The process may be gone by now.
    let _ = send.send(message);
}

/// The script's argument for queueing: `+` for the place of a listening process, or empty.
fn place(queue: bool) -> &'static str {
    if queue { "+" } else { "" }
}

/// Makes 32 random hexadecimal digits, for a token or the name of a process.
pub fn random_hex() -> String {
    let half = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", half(), half())
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
