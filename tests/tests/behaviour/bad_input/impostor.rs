//! Servers for tests of bad input: they accept connections, but do not answer like Redis.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::net::TcpSocket;

/// Starts a server that answers every request with `answer`, on a new port, until the test ends.
pub(crate) fn answering(answer: &'static [u8]) -> u16 {
    let (listener, port) = listen();
    std::thread::spawn(move || {
        for mut client in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                let mut buffer = [0; 4096];
                while client.read(&mut buffer).is_ok_and(|length| length > 0) {
                    if client.write_all(answer).is_err() {
                        break;
                    }
                }
            });
        }
    });
    port
}

/// Starts a server that answers the first request with `begin`, and then sends `more` again and
/// again. It stops when the client closes the connection, or after `most` bytes. Returns the port,
/// and a counter of the sent bytes.
pub(crate) fn floods(begin: &'static [u8], more: u8, most: usize) -> (u16, Arc<AtomicUsize>) {
    let (listener, port) = listen();
    let sent = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&sent);
    std::thread::spawn(move || {
        for mut client in listener.incoming().map_while(Result::ok) {
            let count = Arc::clone(&count);
            std::thread::spawn(move || {
                let piece = vec![more; 64 * 1024];
                let asked = client.read(&mut [0; 4096]).is_ok_and(|length| length > 0);
                if !asked || client.write_all(begin).is_err() {
                    return;
                }
                while count.load(Ordering::Relaxed) < most && client.write_all(&piece).is_ok() {
                    count.fetch_add(piece.len(), Ordering::Relaxed);
                }
            });
        }
    });
    (port, sent)
}

/// Starts a server that closes every connection at once.
pub(crate) fn closes() -> u16 {
    let (listener, port) = listen();
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            drop(client);
        }
    });
    port
}

/// Starts a server that accepts connections but never answers. The server runs until the returned
/// listener is dropped.
pub(crate) fn is_silent() -> (TcpListener, u16) {
    listen()
}

/// Returns a port that refuses connections. No other test gets this port until the returned socket
/// is dropped.
pub(crate) fn is_not_there() -> (TcpSocket, u16) {
    let socket = TcpSocket::new_v4().expect("a socket");
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    socket.bind(any).expect("a free port");
    let port = socket.local_addr().expect("bound").port();
    (socket, port)
}

fn listen() -> (TcpListener, u16) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    (listener, port)
}
