//! Opens a connection: the socket, TLS, and the log-in.

use std::io;

use redis::{ConnectionAddr, ProtocolVersion, RedisError};

use super::line::Line;
use super::login::{Access, login};
use super::server::Server;
use crate::store::socket::reach;

/// Connects to the server and logs in.
pub(crate) async fn open(
    server: &Server,
    access: &Access,
    protocol: ProtocolVersion,
) -> Result<Line, RedisError> {
    let mut line = connect(server).await?;
    login(
        &mut line,
        access,
        server.info().redis_settings().db(),
        protocol,
    )
    .await?;
    Ok(line)
}

async fn connect(server: &Server) -> io::Result<Line> {
    match server.info().addr() {
        ConnectionAddr::Tcp(host, port) => {
            let socket = reach::host(host, *port).await?;
            let wire = socket.wire();
            Ok(Line::new(Box::new(socket), wire))
        }
        #[cfg(unix)]
        ConnectionAddr::Unix(path) => {
            let socket = reach::path(path).await?;
            let wire = socket.wire();
            Ok(Line::new(Box::new(socket), wire))
        }
        #[cfg(feature = "tls")]
        ConnectionAddr::TcpTls { host, port, .. } => {
            let socket = reach::host(host, *port).await?;
            let wire = socket.wire();
            let stream = server.tls.reach(host, socket).await?;
            Ok(Line::new(Box::new(stream), wire))
        }
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}
