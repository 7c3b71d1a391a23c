//! A network with a delay: a process that forwards each byte, in both directions, a fixed time
//! after its arrival.
//!
//! One thread does everything, because a thread for each direction would take more of the
//! processors that client and server need. The proxy of the tests is not suitable: it sleeps on
//! tokio's timer, which counts in whole milliseconds.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::clock;
use crate::contestants::Fault;

/// Maximum number of bytes in one read.
const CHUNK: usize = 64 * 1024;

/// Prints the address on which this process listens. Forwards to `target` until the process is
/// killed.
pub(crate) fn main(target: SocketAddr, delay: Duration) -> Result<(), Fault> {
    wake_on_time();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    listener.set_nonblocking(true)?;
    println!("{}", listener.local_addr()?);
    io::stdout().flush()?;
    let mut pipes: Vec<Pipe> = Vec::new();
    let mut buffer = vec![0; CHUNK];
    loop {
        wait(&listener, &pipes)?;
        while let Some((client, _)) = unless_blocked(listener.accept())? {
            pipes.extend(connect(client, target, clock::nanos(delay))?);
        }
        // If one direction of a connection ends, the pipes of both directions end and are removed.
        pipes.retain_mut(|pipe| pipe.step(&mut buffer).is_ok());
    }
}

/// Connects to `target`, and returns one pipe for each direction.
fn connect(client: TcpStream, target: SocketAddr, delay: u64) -> io::Result<[Pipe; 2]> {
    let server = TcpStream::connect(target)?;
    for end in [&client, &server] {
        end.set_nonblocking(true)?;
        end.set_nodelay(true)?;
    }
    let (client, server) = (Arc::new(client), Arc::new(server));
    Ok([
        Pipe::new(Arc::clone(&client), Arc::clone(&server), delay),
        Pipe::new(server, client, delay),
    ])
}

/// Sleeps until a client connects, bytes arrive, a blocked receiver accepts bytes again, or bytes
/// are due.
fn wait(listener: &TcpListener, pipes: &[Pipe]) -> io::Result<()> {
    let mut fds = vec![PollFd::new(listener, PollFlags::IN)];
    for pipe in pipes {
        fds.push(PollFd::new(&*pipe.from, PollFlags::IN));
        if pipe.blocked {
            fds.push(PollFd::new(&*pipe.to, PollFlags::OUT));
        }
    }
    let waiting = pipes.iter().filter(|pipe| !pipe.blocked);
    let due = waiting.filter_map(Pipe::due).min();
    let limit = due.map(|due| Timespec::try_from(clock::until(due)).unwrap_or_default());
    match poll(&mut fds, limit.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// One direction of a connection.
struct Pipe {
    from: Arc<TcpStream>,
    to: Arc<TcpStream>,
    delay: u64,
    /// Bytes in flight, with the time at which they are due.
    parcels: VecDeque<(u64, Vec<u8>)>,
    /// True while the receiver accepts nothing.
    blocked: bool,
}

impl Pipe {
    fn new(from: Arc<TcpStream>, to: Arc<TcpStream>, delay: u64) -> Self {
        Self {
            from,
            to,
            delay,
            parcels: VecDeque::new(),
            blocked: false,
        }
    }

    fn due(&self) -> Option<u64> {
        self.parcels.front().map(|(due, _)| *due)
    }

    /// Reads arrived bytes, and sends due bytes. Returns an error if the connection has ended.
    fn step(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        let taken = self.take(buffer);
        let sent = self.send();
        if taken.is_err() || sent.is_err() {
            let _ = self.from.shutdown(std::net::Shutdown::Both);
            let _ = self.to.shutdown(std::net::Shutdown::Both);
        }
        taken.and(sent)
    }

    fn take(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        while let Some(length) = unless_blocked((&*self.from).read(buffer))? {
            if length == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            let due = clock::now() + self.delay;
            self.parcels.push_back((due, buffer[..length].to_vec()));
        }
        Ok(())
    }

    fn send(&mut self) -> io::Result<()> {
        self.blocked = false;
        while let Some((due, bytes)) = self.parcels.front_mut() {
            if *due > clock::now() {
                break;
            }
            let Some(length) = unless_blocked((&*self.to).write(bytes))? else {
                self.blocked = true;
                break;
            };
            bytes.drain(..length);
            if bytes.is_empty() {
                self.parcels.pop_front();
            }
        }
        Ok(())
    }
}

/// Returns `None` if the operation would block, or if a signal has interrupted it.
fn unless_blocked<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Prevents late wake-ups. To save power, Linux may wake a thread 50 µs late, which is a fifth of
/// the usual delay of 250 µs.
fn wake_on_time() {
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    /// Fails if bytes are lost, reordered, or arrive earlier than the delay allows.
    #[test]
    fn delayed_bytes_arrive_in_order_and_not_too_early() {
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let target = server.local_addr().expect("a bound socket");
        let front = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let mut client = TcpStream::connect(front.local_addr().expect("a bound socket"))
            .expect("the front listens");
        let (inner, _) = front.accept().expect("a connection");
        let delay = Duration::from_millis(20);
        let [mut there, _back] =
            connect(inner, target, clock::nanos(delay)).expect("the server listens");
        let (mut end, _) = server.accept().expect("a connection");
        let sent: Vec<u8> = (0..100_000_u32).map(|n| n.to_le_bytes()[0]).collect();
        let began = Instant::now();
        client.write_all(&sent).expect("it can be sent");
        let pump = std::thread::spawn(move || {
            let mut buffer = vec![0; CHUNK];
            while there.step(&mut buffer).is_ok() {}
        });
        let mut got = vec![0; sent.len()];
        end.read_exact(&mut got).expect("all of it comes");
        assert!(began.elapsed() >= delay, "{:?}", began.elapsed());
        assert_eq!(got, sent);
        drop((client, end));
        pump.join().expect("the pipe ends with its connection");
    }
}
