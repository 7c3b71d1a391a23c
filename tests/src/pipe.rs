//! A proxy that injects network faults without knowledge of the protocol. Bytes pass, are held
//! back, or vanish.
//!
//! The proxy runs on a separate thread, so that it works even while all workers of the test's
//! runtime are blocked.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Time in which a connection should get its next TCP probe.
const SOON: Duration = Duration::from_secs(20);

/// The treatment of bytes that arrive after this value is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// Bytes pass.
    Pass,
    /// Bytes are held back, and pass when the flow changes.
    Stall,
    /// Bytes vanish. After that, later bytes of the same connection and direction vanish too, even
    /// if the flow changes.
    BlackHole,
    /// Requests pass and answers vanish. After that, later answers on the same connection vanish
    /// too, even if the flow changes.
    LoseAnswers,
}

/// A proxy in front of one server. Dropping it closes its port and all connections.
#[derive(Debug)]
pub struct Pipe {
    address: SocketAddr,
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct State {
    target: SocketAddr,
    patience: Duration,
    flow: watch::Sender<Flow>,
    /// Number of cuts so far. Each change of this number closes all connections. The number
    /// `u64::MAX` also ends the proxy.
    cuts: watch::Sender<u64>,
    /// Requests with these bytes are held back. Empty if none are.
    hold: watch::Sender<Vec<u8>>,
    connections: AtomicU64,
    held: AtomicU64,
}

impl Pipe {
    /// Starts a proxy in front of `target`. At first all bytes pass.
    ///
    /// # Panics
    ///
    /// Panics if no port is free.
    pub fn start(target: SocketAddr) -> Self {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Self::start_at(any, target, Duration::ZERO)
    }

    /// Starts a proxy at an address that the clients already use. While the target does not listen,
    /// a client's connection stays open for up to `patience` before the proxy closes it.
    ///
    /// # Panics
    ///
    /// Panics if the address is not free.
    pub fn start_at(address: SocketAddr, target: SocketAddr, patience: Duration) -> Self {
        let listener = std::net::TcpListener::bind(address).expect("a free port");
        listener.set_nonblocking(true).expect("a socket option");
        let address = listener.local_addr().expect("a bound socket");
        let state = Arc::new(State {
            target,
            patience,
            flow: watch::Sender::new(Flow::Pass),
            cuts: watch::Sender::new(0),
            hold: watch::Sender::new(Vec::new()),
            connections: AtomicU64::new(0),
            held: AtomicU64::new(0),
        });
        let serving = Arc::clone(&state);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime starts");
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener).expect("a listener");
                serve(&listener, &serving).await;
            });
        });
        Self {
            address,
            state,
            thread: Some(thread),
        }
    }

    /// The address that clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the treatment of bytes that arrive after this call.
    pub fn set(&self, flow: Flow) {
        self.state.flow.send_replace(flow);
    }

    /// Holds back each request that contains these bytes, and later requests of its connection.
    /// They pass at the next call of this method; with an empty argument, nothing is held back. A
    /// request must arrive in one piece, as short requests do.
    pub fn hold(&self, bytes: &[u8]) {
        self.state.hold.send_replace(bytes.to_vec());
    }

    /// The number of requests that [`hold`](Self::hold) has held back so far.
    pub fn held(&self) -> u64 {
        self.state.held.load(Ordering::Relaxed)
    }

    /// The number of connections that clients have opened so far.
    pub fn connections(&self) -> u64 {
        self.state.connections.load(Ordering::Relaxed)
    }

    /// True if clients have connections, and the kernel will soon send a TCP probe on each of them.
    /// By default it would send one after two hours.
    ///
    /// # Panics
    ///
    /// Panics if the kernel does not list its connections.
    pub fn are_clients_probed(&self) -> bool {
        let table = std::fs::read_to_string("/proc/net/tcp").expect("the kernel's connections");
        let remote = format!("0100007F:{:04X}", self.address.port());
        let probes = table.lines().filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            // `01` is an established connection.
            let is_client = fields[2] == remote && fields[3] == "01";
            is_client.then(|| probed_in(fields[5]).is_some_and(|time| time <= SOON))
        });
        let probes: Vec<bool> = probes.collect();
        !probes.is_empty() && probes.into_iter().all(|probed| probed)
    }

    /// Closes all connections.
    pub fn cut(&self) {
        self.state.cuts.send_modify(|cuts| *cuts += 1);
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        self.state.cuts.send_replace(u64::MAX);
        if let Some(thread) = self.thread.take() {
            // `join` returns an error only if the thread has panicked, and the panic was already
            // printed.
            let _ = thread.join();
        }
    }
}

async fn serve(listener: &TcpListener, state: &Arc<State>) {
    let mut cuts = state.cuts.subscribe();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = cuts.wait_for(|cuts| *cuts == u64::MAX) => return,
        };
        let Ok((client, _)) = accepted else { continue };
        state.connections.fetch_add(1, Ordering::Relaxed);
        let state = Arc::clone(state);
        tokio::spawn(async move { connect(client, &state).await });
    }
}

async fn connect(client: TcpStream, state: &State) {
    let mut cuts = state.cuts.subscribe();
    let number = *cuts.borrow_and_update();
    let Ok(server) = reach(state).await else {
        return;
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let ((from_client, to_client), (from_server, to_server)) =
        (client.into_split(), server.into_split());
    let requests = pass(from_client, to_server, state, Way::ToServer);
    let answers = pass(from_server, to_client, state, Way::ToClient);
    tokio::select! {
        () = requests => {}
        () = answers => {}
        _ = cuts.wait_for(|cuts| *cuts != number) => {}
    }
}

async fn reach(state: &State) -> std::io::Result<TcpStream> {
    let end = Instant::now() + state.patience;
    loop {
        match TcpStream::connect(state.target).await {
            Err(_) if Instant::now() < end => tokio::time::sleep(Duration::from_millis(5)).await,
            reached => return reached,
        }
    }
}

/// The direction of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    ToServer,
    ToClient,
}

impl Way {
    /// True if the bytes of this direction vanish.
    fn vanishes(self, flow: Flow) -> bool {
        flow == Flow::BlackHole || (flow == Flow::LoseAnswers && self == Self::ToClient)
    }
}

impl State {
    /// Waits while requests like this one are held back.
    async fn hold(&self, request: &[u8]) {
        let holds = |bytes: &Vec<u8>| {
            let mut parts = request.windows(bytes.len().max(1));
            !bytes.is_empty() && parts.any(|part| part == bytes.as_slice())
        };
        let mut held = self.hold.subscribe();
        if holds(&held.borrow()) {
            self.held.fetch_add(1, Ordering::Relaxed);
            // An error is impossible, because `self` has the sender.
            let _ = held.wait_for(|bytes| !holds(bytes)).await;
        }
    }
}

/// Passes bytes in one direction until either end closes.
async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, state: &State, way: Way) {
    let mut flow = state.flow.subscribe();
    let mut lost = false;
    let mut bytes = vec![0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        if flow.wait_for(|flow| *flow != Flow::Stall).await.is_err() {
            return;
        }
        if way == Way::ToServer {
            state.hold(&bytes[..count]).await;
        }
        lost |= way.vanishes(*flow.borrow());
        if !lost && to.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
}

/// Returns the time until the next TCP probe, from the timer of a connection in `/proc/net/tcp`.
/// `02` is the timer of the probes. It counts hundredths of a second.
fn probed_in(timer: &str) -> Option<Duration> {
    let ticks = u64::from_str_radix(timer.strip_prefix("02:")?, 16).ok()?;
    Some(Duration::from_millis(ticks * 10))
}
