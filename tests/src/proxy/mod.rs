//! A network with faults: a TCP proxy between a client and a Redis or PostgreSQL server.
//!
//! It runs on a separate thread, so that it continues while the test's own workers are blocked. It
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

/// Treatment of messages from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Messages pass.
    Pass,
    /// Messages pass after `least`, plus up to `jitter`, in order, in each direction.
    Delay {
        /// The least delay.
        least: Duration,
        /// The largest addition to it.
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
    /// Replies are replaced by bytes that are not of the protocol.
    Garble,
    /// New connections are closed at once; present ones continue.
    Refuse,
}

/// Fate of a connection after a lost reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// The connection is closed.
    Cut,
    /// The connection stays open and silent.
    Silence,
    /// The connection stays open, and the answer is this error, in the words of a server:
    /// `READONLY …`.
    Error(&'static str),
    /// The connection stays open, and the answer is these bytes.
    Instead(&'static str),
}

/// Counts of connections and messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Connections opened by clients.
    pub connections: u64,
    /// Commands sent to the server.
    pub commands: u64,
    /// Replies sent to clients.
    pub replies: u64,
    /// Replies lost on purpose.
    pub lost: u64,
}

/// The replies to lose.
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
    /// Grows with every cut; connections with an older number end.
    generation: watch::Sender<u64>,
    /// Grows with every half-open; server sides with an older number are closed.
    half_open: watch::Sender<u64>,
    /// Number of times that clients were hung up on, and the delay of the messages that they had
    /// sent.
    hang_up: watch::Sender<(u64, Duration)>,
    /// Time of the last command, on the clock of leases.
    last_command: AtomicU64,
    loss: Mutex<Option<Loss>>,
    connections: AtomicU64,
    commands: AtomicU64,
    replies: AtomicU64,
    lost: AtomicU64,
}

impl Shared {
    /// Returns the fate of the connection if the reply to `command` should be lost. Uses up one of
    /// the times.
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

    /// Gives one of the times back. The reply reported an error, so nothing was executed, and it
    /// passed.
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
    /// Panics if no port is free.
    pub fn start(target: SocketAddr) -> Self {
        Self::speaking(Protocol::Redis, target)
    }

    /// Starts a proxy in front of a PostgreSQL server, without TLS; everything passes.
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

    /// True if the server behind it is a PostgreSQL.
    pub fn speaks_postgres(&self) -> bool {
        self.shared.protocol == Protocol::Postgres
    }

    /// The address that clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the treatment of everything sent from now on.
    pub fn set(&self, mode: Mode) {
        self.shared.mode.send_replace(mode);
    }

    /// Lets everything pass again.
    pub fn pass(&self) {
        self.set(Mode::Pass);
    }

    /// Closes all present connections, on both sides.
    pub fn cut(&self) {
        self.shared.generation.send_modify(|number| *number += 1);
    }

    /// Closes the server side of all present connections and leaves the client side open and
    /// silent.
    pub fn half_open(&self) {
        self.shared.half_open.send_modify(|number| *number += 1);
    }

    /// Closes the client side of all present connections. Held-back messages of clients
    /// ([`Mode::Stall`]) still arrive at the server, after `late`, unless the network stalls then.
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

    /// Loses the replies to the next `times` commands that contain `text`; an empty text matches
    /// any command. The server executes the command, and its reply vanishes. An error reply passes.
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

    /// The counts so far.
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
            // If the server is down, the client sees a connection that closes at once.
            if let Ok(server) = TcpStream::connect(shared.target).await {
                link::run(client, server, &shared).await;
            }
        });
    }
}
