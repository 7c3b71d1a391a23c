//! Connects to a server.

use std::io;
use std::net::SocketAddr;
#[cfg(unix)]
use std::path::Path;

#[cfg(feature = "redis")]
use futures_util::future::select_ok;
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio::net::{TcpStream, lookup_host};

use super::{Socket, Stream};
use crate::base::io_text::io_text;

/// Returns the addresses of a host. Fails if it has none.
pub(crate) async fn addresses(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let addresses: Vec<SocketAddr> = lookup_host((host, port)).await?.collect();
    if addresses.is_empty() {
        let text = "the name of the host has no address";
        return Err(io::Error::new(io::ErrorKind::NotFound, text));
    }
    Ok(addresses)
}

/// Returns an error of the same kind with the text of [`io_text`]. If a limit of open files caused
/// the error, this text names the limit.
pub(super) fn explained(error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), io_text(error))
}

/// Connects to one address.
pub(crate) async fn address(address: SocketAddr) -> io::Result<Socket> {
    let stream = TcpStream::connect(address)
        .await
        .map_err(|error| explained(&error))?;
    // Nagle's algorithm is off, because requests are already collected into one write.
    stream.set_nodelay(true)?;
    Ok(Socket::new(Stream::Tcp(stream.into_std()?)))
}

/// Connects to all addresses of the host at once. Returns the connection that opens first.
#[cfg(feature = "redis")]
pub(crate) async fn host(name: &str, port: u16) -> io::Result<Socket> {
    let addresses = addresses(name, port).await?.into_iter();
    let attempts = addresses.map(|to| Box::pin(address(to)));
    select_ok(attempts).await.map(|(socket, _)| socket)
}

/// Connects to a Unix socket of this machine.
#[cfg(unix)]
pub(crate) async fn path(path: &Path) -> io::Result<Socket> {
    let stream = UnixStream::connect(path)
        .await
        .map_err(|error| explained(&error))?;
    Ok(Socket::new(Stream::Unix(stream.into_std()?)))
}
