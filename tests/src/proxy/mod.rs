//! A network with faults: a TCP proxy between a client and a Redis or PostgreSQL server.
//!
//! It runs on a thread of its own, so that it goes on while the test's own workers are blocked. It
//! cuts the stream into messages, so that a fault hits between two of them, or exactly one.

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

/// What the network does with messages from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Messages pass.
    Pass,
    /// Messages pass after `least` and up to `jitter` more, in order, in each direction.
    Delay {
        /// The least delay.
        least: Duration,
        /// The most that is added to it.
        jitter: Duration,
    },
    /// Replies pass after this long, requests at once.
    DelayReplies(Duration),
    /// Messages are held back, and delivered when the mode changes: a partition that heals.
    Stall,
    /// Messages vanish, and so does all that follows on these connections, even after the mode
    /// changes.
    BlackHole,
    /// Requests pass and are executed; replies vanish, as with [`BlackHole`](Self::BlackHole).
    SwallowReplies,
    /// Requests vanish, as with [`BlackHole`](Self::BlackHole); replies pass.
    SwallowRequests,
    /// Published messages vanish; replies pass.
    LoseMessages,
    /// Replies arrive as bytes that are not of the protocol.
    Garble,
    /// New connections are closed at once; present ones pass.
    Refuse,
}

/// What happens to a connection after a reply on it was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// The connection is closed.
    Cut,
    /// The connection stays open and silent.
    Silence,
    /// The connection stays open, and the answer is this error: `READONLY as a server would say
    /// it`.
    Error(&'static str),
    /// The connection stays open, and the answer is these bytes.
    Instead(&'static str),
}

/// Counts of what has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Connections that clients opened.
    pub connections: u64,
    /// Commands that went to the server.
    pub commands: u64,
    /// Replies that went to clients.
    pub replies: u64,
    /// Replies that were lost on purpose.
    pub lost: u64,
}

/// The replies that are to be lost.
#[derive(Debug)]
struct Loss {
    containing: Vec<u8>,
    times: u64,
    after: After,
}

/// The state that the proxy and its connections share.
#[derive(Debug)]
struct Shared {
    target: SocketAddr,
    protocol: Protocol,
    mode: watch::Sender<Mode>,
    /// Grows with every cut; connections of an older number end.
    generation: watch::Sender<u64>,
    /// Grows with every half-open; server sides of an older number are closed.
    half_open: watch::Sender<u64>,
    /// How many times clients were hung up on, and how late the messages that they had sent arrive.
    hang_up: watch::Sender<(u64, Duration)>,
    /// When the last command came, on the clock that leases are counted on.
    last_command: AtomicU64,
    loss: Mutex<Option<Loss>>,
    connections: AtomicU64,
    commands: AtomicU64,
    replies: AtomicU64,
    lost: AtomicU64,
}

impl Shared {
    /// Whether the reply to `command` is to be lost. Uses up one of the times.
    fn loses(&self, command: &[u8]) -> Option<After> {
        let mut loss = self.loss.lock().expect("no panic under this lock");
        let wanted = loss.as_mut().filter(|loss| loss.times > 0)?;
        let needle = &wanted.containing;
        let found = needle.is_empty() || command.windows(needle.len()).any(|part| part == needle);
        found.then(|| {
            wanted.times -= 1;
            wanted.after
        })
    }

    /// A reply that should have been lost reported an error: nothing was executed, so it passed.
    fn not_lost(&self) {
        if let Some(loss) = &mut *self.loss.lock().expect("no panic under this lock") {
            loss.times += 1;
        }
    }
}

/// A proxy in front of one server. Dropping it closes everything.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Starts a proxy in front of `target`; everything passes.
    ///
    /// # Panics
    ///
    /// When no port is free.
    pub fn start(target: SocketAddr) -> Self {
        Self::speaking(Protocol::Redis, target)
    }

    /// The same in front of a PostgreSQL server, without TLS.
    ///
    /// # Panics
    ///
    /// When no port is free.
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
            connections: AtomicU64::new(0),
            commands: AtomicU64::new(0),
            replies: AtomicU64::new(0),
            lost: AtomicU64::new(0),
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

    /// The URL that clients connect to.
    pub fn url(&self) -> String {
        format!("redis://{}/", self.address)
    }

    /// Whether the server behind it is a PostgreSQL.
    pub fn speaks_postgres(&self) -> bool {
        self.shared.protocol == Protocol::Postgres
    }

    /// The address that clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes what happens to everything that is sent from now on.
    pub fn set(&self, mode: Mode) {
        self.shared.mode.send_replace(mode);
    }

    /// Everything passes again.
    pub fn pass(&self) {
        self.set(Mode::Pass);
    }

    /// Closes all present connections, both sides.
    pub fn cut(&self) {
        self.shared.generation.send_modify(|number| *number += 1);
    }

    /// Closes the server side of all present connections and leaves the client side open and
    /// silent.
    pub fn half_open(&self) {
        self.shared.half_open.send_modify(|number| *number += 1);
    }

    /// Closes the client side of all present connections. Messages that clients had sent and that
    /// were held back ([`Mode::Stall`]) still arrive at the server, after `late`, unless the
    /// network stalls then.
    pub fn hang_up(&self, late: Duration) {
        self.shared.hang_up.send_modify(|(number, delay)| {
            *number += 1;
            *delay = late;
        });
    }

    /// When the last command came from a client, in nanoseconds of `leasehold::__test::now`.
    pub fn last_command(&self) -> u64 {
        self.shared.last_command.load(Ordering::Acquire)
    }

    /// Loses the replies to the next `times` commands that contain `text` (any command when it is
    /// empty). The server executes the command, and its reply vanishes. A reply that is an error
    /// passes.
    ///
    /// # Panics
    ///
    /// Never, unless the proxy itself has failed.
    pub fn lose_replies(&self, text: &str, times: u64, after: After) {
        *self.shared.loss.lock().expect("no panic under this lock") = Some(Loss {
            containing: text.as_bytes().to_vec(),
            times,
            after,
        });
    }

    /// What has passed so far.
    pub fn counts(&self) -> Counts {
        let shared = &self.shared;
        Counts {
            connections: shared.connections.load(Ordering::Relaxed),
            commands: shared.commands.load(Ordering::Relaxed),
            replies: shared.replies.load(Ordering::Relaxed),
            lost: shared.lost.load(Ordering::Relaxed),
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            // A panic of that thread has been printed already.
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
            // A server that is down shows to the client as a connection that closes at once.
            if let Ok(server) = TcpStream::connect(shared.target).await {
                link::run(client, server, &shared).await;
            }
        });
    }
}
