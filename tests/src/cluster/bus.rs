//! A proxy for the connections over which the nodes of a Redis Cluster check each other (the
//! cluster bus). A test can cut one node off.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

type Barred = BTreeSet<IpAddr>;

/// A proxy in front of the port on which a node listens for the other nodes of its cluster. Each of
/// the other nodes connects from a different address, so that `bar` can keep single nodes out.
/// Dropping the proxy closes all connections.
#[derive(Debug)]
pub(super) struct Bus {
    port: u16,
    barred: Arc<watch::Sender<Barred>>,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Bus {
    /// Starts the proxy in front of the port `target`. At first it accepts all connections.
    pub(super) fn start(target: u16) -> Self {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        listener.set_nonblocking(true).expect("a socket option");
        let port = listener.local_addr().expect("a bound socket").port();
        let barred = Arc::new(watch::Sender::default());
        let (stop, stopped) = watch::channel(false);
        let thread = std::thread::spawn({
            let barred = Arc::clone(&barred);
            move || run(listener, target, &barred, stopped)
        });
        Self {
            port,
            barred,
            stop,
            thread: Some(thread),
        }
    }

    /// Returns the port of the proxy, at which the other nodes reach the node behind it.
    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Closes all connections from the addresses `from`, and every new connection from them.
    /// Connections from other addresses pass.
    pub(super) fn bar(&self, from: impl IntoIterator<Item = IpAddr>) {
        self.barred.send_replace(from.into_iter().collect());
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            // An error means a panic of that thread. The panic was already printed.
            let _ = thread.join();
        }
    }
}

fn run(
    listener: std::net::TcpListener,
    target: u16,
    barred: &watch::Sender<Barred>,
    mut stopped: watch::Receiver<bool>,
) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime starts");
    runtime.block_on(async {
        let listener = TcpListener::from_std(listener).expect("a listening socket");
        tokio::select! {
            () = accept(&listener, target, barred) => {}
            _ = stopped.wait_for(|stop| *stop) => {}
        }
    });
}

async fn accept(listener: &TcpListener, target: u16, barred: &watch::Sender<Barred>) {
    loop {
        let Ok((from, peer)) = listener.accept().await else {
            continue;
        };
        let barred = barred.subscribe();
        if !barred.borrow().contains(&peer.ip()) {
            tokio::spawn(carry(from, peer, target, barred));
        }
    }
}

async fn carry(
    mut from: TcpStream,
    peer: SocketAddr,
    target: u16,
    mut barred: watch::Receiver<Barred>,
) {
    // If the node is down, the connecting node gets a connection that closes at once.
    let Ok(mut to) = TcpStream::connect((Ipv4Addr::LOCALHOST, target)).await else {
        return;
    };
    tokio::select! {
        // Ends after both sides have ended the connection, or after an error on one side.
        _ = copy_bidirectional(&mut from, &mut to) => {}
        _ = barred.wait_for(|barred| barred.contains(&peer.ip())) => {}
    }
}
