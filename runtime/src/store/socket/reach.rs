//! Reaching a server.

use std::io;
use std::net::SocketAddr;
#[cfg(unix)]
use std::path::Path;

use futures_util::future::select_ok;
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio::net::{TcpStream, lookup_host};

use super::{Socket, Stream};

/// Connects to the host's addresses at once; the first to answer counts.
pub(crate) async fn host(name: &str, port: u16) -> io::Result<Socket> {
    let addresses: Vec<SocketAddr> = lookup_host((name, port)).await?.collect();
    if addresses.is_empty() {
        return Err(io::ErrorKind::NotFound.into());
    }
    let attempts = addresses
        .into_iter()
        .map(|address| Box::pin(TcpStream::connect(address)));
    let (stream, _) = select_ok(attempts).await?;
    // Requests that are ready leave in one write anyway, so nothing is gained by waiting for more.
    stream.set_nodelay(true)?;
    Ok(Socket::new(Stream::Tcp(stream.into_std()?)))
}

/// Connects to a socket of this machine.
#[cfg(unix)]
pub(crate) async fn path(path: &Path) -> io::Result<Socket> {
    let stream = UnixStream::connect(path).await?;
    Ok(Socket::new(Stream::Unix(stream.into_std()?)))
}
