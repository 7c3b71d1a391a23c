//! A network with faults: a TCP proxy between a client and a Redis or PostgreSQL server.
//!
//! The proxy runs on a separate thread, so it works even while all workers of the test's runtime
//! are blocked. It cuts the stream of bytes into messages, so that a fault can hit exactly one
//! message.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

mod link;
mod postgres;
mod protocol;
mod resp;

use protocol::Protocol;

/// The treatment of messages that arrive after this mode is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Messages pass.
    Pass,
    /// Messages pass in order, each after a delay of `least` plus up to `jitter`, in both
    /// directions.
    Delay {
        /// The shortest delay.
        least: Duration,
        /// The largest random addition to `least`.
        jitter: Duration,
    },
    /// Replies pass after this delay. Requests pass at once.
    DelayReplies(Duration),
    /// Messages are held back until the mode changes, as in a network partition that heals.
    Stall,
    /// Messages vanish. After one has vanished, all later messages of its connection vanish too, in
    /// both directions, even if the mode changes.
    BlackHole,
    /// Requests pass and are executed, and replies vanish. Later replies of the same connection
    /// vanish too, even if the mode changes.
    SwallowReplies,
    /// Requests vanish, and replies pass. Later requests of the same connection vanish too, even if
    /// the mode changes.
    SwallowRequests,
    /// Published messages (Redis `PUBLISH`, PostgreSQL `NOTIFY`) vanish. All other messages pass.
    LoseMessages,
    /// Replies are replaced by bytes that the protocol does not allow.
    Garble,
    /// New connections are closed at once. Existing connections continue.
    Refuse,
}

/// Fate of a connection after a lost reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// The connection is closed.
    Cut,
    /// The connection stays open and silent.
    Silence,
    /// The connection stays open, and the client gets this error instead of the reply. The text has
    /// the form of a server's error, for example `READONLY …`.
    Error(&'static str),
    /// The connection stays open, and the client gets these bytes instead of the reply.
    Instead(&'static str),
}

/// Counts of connections and messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Connections opened by clients.
    pub connections: u64,
    /// Commands sent to the server.
    pub commands: u64,
    /// Messages sent to clients: replies, and messages that answer no command.
    pub replies: u64,
    /// Replies lost on purpose.
    pub lost: u64,
    /// Requests held back by [`Proxy::hold`].
    pub held: u64,
}

/// The replies to lose: the replies to the next `times` commands that contain the bytes
/// `containing`.
#[derive(Debug)]
struct Loss {
    containing: Vec<u8>,
    times: u64,
    after: After,
}

/// State shared by the proxy and its connections.
#[derive(Debug)]
struct Shared {
    target: SocketAddr,
    protocol: Protocol,
    mode: watch::Sender<Mode>,
    /// Number of calls of `cut`. Each call ends all existing connections.
    generation: watch::Sender<u64>,
    /// Number of calls of `half_open`. Each call closes the server side of all existing
    /// connections.
    half_open: watch::Sender<u64>,
    /// Number of calls of `hang_up`, and the argument `late` of the last call.
    hang_up: watch::Sender<(u64, Duration)>,
    /// Time of the last command, in nanoseconds of `leasehold::__test::now`.
    last_command: AtomicU64,
    loss: Mutex<Option<Loss>>,
    /// Requests with these bytes are held back. Empty if none are.
    hold: watch::Sender<Vec<u8>>,
    connections: AtomicU64,
    commands: AtomicU64,
    replies: AtomicU64,
    lost: AtomicU64,
    held: AtomicU64,
}

/// True if `message` contains these bytes.
fn contains(message: &[u8], bytes: &[u8]) -> bool {
    bytes.is_empty() || message.windows(bytes.len()).any(|part| part == bytes)
}

impl Shared {
    /// Returns the fate of the connection if the reply to `command` must be lost, and `None` if the
    /// reply must pass. Each reply to lose uses up one of the requested losses.
    fn loses(&self, command: &[u8]) -> Option<After> {
        let mut loss = self.loss.lock().expect("no panic under this lock");
        let wanted = loss.as_mut().filter(|loss| loss.times > 0)?;
        contains(command, &wanted.containing).then(|| {
            wanted.times -= 1;
            wanted.after
        })
    }

    /// Gives one requested loss back, because the reply to lose is an error. Error replies pass and
    /// use up no loss, because the server has executed nothing.
    fn not_lost(&self) {
        if let Some(loss) = &mut *self.loss.lock().expect("no panic under this lock") {
            loss.times += 1;
        }
    }
}

/// A proxy in front of one server. Dropping it closes its port and all connections.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Starts a proxy in front of a Redis server. At first all messages pass.
    ///
    /// # Panics
    ///
    /// Panics if no port is free.
    pub fn start(target: SocketAddr) -> Self {
        Self::speaking(Protocol::Redis, target)
    }

    /// Starts a proxy in front of a PostgreSQL server, without TLS. At first all messages pass.
    ///
    /// # Panics
    ///
    /// Panics if no port is free.
    pub fn start_postgres(target: SocketAddr) -> Self {
        Self::speaking(Protocol::Postgres, target)
    }

    fn speaking(protocol: Protocol, target: SocketAddr) -> Self {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        listener.set_nonblocking(true).expect("a socket option");
        let address = listener.local_addr().expect("a bound socket");
        let shared = Arc::new(Shared {
            target,
            protocol,
            mode: watch::Sender::new(Mode::Pass),
            generation: watch::Sender::new(0),
            half_open: watch::Sender::new(0),
            hang_up: watch::Sender::default(),
            last_command: AtomicU64::new(0),
            loss: Mutex::new(None),
            hold: watch::Sender::default(),
            connections: AtomicU64::new(0),
            commands: AtomicU64::new(0),
            replies: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            held: AtomicU64::new(0),
        });
        let (stop, stopped) = watch::channel(false);
        let thread = std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || run(listener, &shared, stopped)
        });
        Self {
            address,
            shared,
            stop,
            thread: Some(thread),
        }
    }

    /// The URL for clients of Redis. For PostgreSQL, pass the [`address`](Self::address) to
    /// [`Database::url_over`](crate::postgres::Database::url_over).
    pub fn url(&self) -> String {
        format!("redis://{}/", self.address)
    }

    /// True if the proxy expects a PostgreSQL server behind it, false for Redis.
    pub fn speaks_postgres(&self) -> bool {
        self.shared.protocol == Protocol::Postgres
    }

    /// The address that clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the treatment of messages that arrive after this call.
    pub fn set(&self, mode: Mode) {
        self.shared.mode.send_replace(mode);
    }

    /// Lets all messages pass again.
    pub fn pass(&self) {
        self.set(Mode::Pass);
    }

    /// Closes all existing connections, on both sides.
    pub fn cut(&self) {
        self.shared.generation.send_modify(|number| *number += 1);
    }

    /// Closes the server side of all existing connections. The client side stays open, but the
    /// client gets no further bytes.
    pub fn half_open(&self) {
        self.shared.half_open.send_modify(|number| *number += 1);
    }

    /// Closes the client side of all existing connections. Requests held back by [`Mode::Stall`]
    /// still reach the server, once the delay `late` has passed and the mode is no longer `Stall`.
    pub fn hang_up(&self, late: Duration) {
        self.shared.hang_up.send_modify(|(number, delay)| {
            *number += 1;
            *delay = late;
        });
    }

    /// Time of the last command from a client, in nanoseconds of `leasehold::__test::now`.
    pub fn last_command(&self) -> u64 {
        self.shared.last_command.load(Ordering::Acquire)
    }

    /// Loses the replies to the next `times` commands that contain `text`. An empty text matches
    /// any command. The server executes the command, and its reply vanishes. An error reply passes
    /// and does not count.
    ///
    /// # Panics
    ///
    /// Panics only if the proxy itself has failed.
    pub fn lose_replies(&self, text: &str, times: u64, after: After) {
        *self.shared.loss.lock().expect("no panic under this lock") = Some(Loss {
            containing: text.as_bytes().to_vec(),
            times,
            after,
        });
    }

    /// Holds back each request that contains `text`, and all later requests of its connection.
    /// They reach the server after the next call with another text. The empty text holds nothing.
    pub fn hold(&self, text: &str) {
        self.shared.hold.send_replace(text.as_bytes().to_vec());
    }

    /// The numbers of connections and messages so far.
    pub fn counts(&self) -> Counts {
        let shared = &self.shared;
        Counts {
            connections: shared.connections.load(Ordering::Relaxed),
            commands: shared.commands.load(Ordering::Relaxed),
            replies: shared.replies.load(Ordering::Relaxed),
            lost: shared.lost.load(Ordering::Relaxed),
            held: shared.held.load(Ordering::Relaxed),
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            // `join` returns an error only if the thread has panicked, and the panic was already
            // printed.
            let _ = thread.join();
        }
    }
}

fn run(listener: std::net::TcpListener, shared: &Arc<Shared>, mut stopped: watch::Receiver<bool>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime starts");
    runtime.block_on(async {
        let listener = TcpListener::from_std(listener).expect("a listening socket");
        tokio::select! {
            () = accept(&listener, shared) => {}
            _ = stopped.wait_for(|stop| *stop) => {}
        }
    });
}

async fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    loop {
        let Ok((client, _)) = listener.accept().await else {
            continue;
        };
        shared.connections.fetch_add(1, Ordering::Relaxed);
        if *shared.mode.borrow() == Mode::Refuse {
            continue;
        }
        let shared = Arc::clone(shared);
        tokio::spawn(async move {
            // If the server is down, the client gets a connection that closes at once.
            if let Ok(server) = TcpStream::connect(shared.target).await {
                link::run(client, server, &shared).await;
            }
        });
    }
}
