//! Opening a connection, and moving its bytes until it is in use.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio_postgres::config::{Host, TargetSessionAttrs};
use tokio_postgres::{AsyncMessage, Client, Config};

use super::failure;
use super::hosts::Hosts;
use crate::store::Failure;
use crate::store::socket::{Socket, Wire, reach};

#[cfg(feature = "tls")]
use super::tls::{Connector, Handshake, Stream};
#[cfg(not(feature = "tls"))]
use tokio_postgres::{NoTls, NoTls as Handshake, tls::NoTlsStream as Stream};

/// Whether a host of several takes no writes, as libpq asks for `target_session_attrs=read-write`.
const IS_STANDBY: &str = "SELECT current_setting('transaction_read_only') = 'on' AS is_standby";

pub(super) type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The bytes of a connection, which its client does not move.
pub(super) struct Bytes {
    connection: tokio_postgres::Connection<Socket, Stream>,
    wire: Arc<Wire>,
}

impl Bytes {
    /// The socket on which any thread can hear of answers.
    pub(super) fn wire(&self) -> &Arc<Wire> {
        &self.wire
    }

    /// Moves bytes. The next message that the server sent unasked, or the end of the connection.
    pub(super) fn poll_message(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<AsyncMessage, Failure>> {
        self.connection.poll_message(cx).map(|message| {
            let message = message.ok_or_else(failure::ended)?;
            message.map_err(|error| failure::of(&error))
        })
    }

    /// Does `work`, and moves bytes meanwhile.
    pub(super) async fn drive<T>(
        &mut self,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let mut work = pin!(work);
        poll_fn(|cx| {
            loop {
                if let Poll::Ready(done) = work.as_mut().poll(cx) {
                    return Poll::Ready(done);
                }
                match self.poll_message(cx) {
                    Poll::Ready(Ok(_)) => {}
                    Poll::Ready(Err(failure)) => return Poll::Ready(Err(failure)),
                    Poll::Pending => return work.as_mut().poll(cx),
                }
            }
        })
        .await
    }
}

/// Connects to all hosts at once; the first one that takes writes counts. So a host that hangs
/// holds nothing up.
pub(super) async fn dial(hosts: &Hosts) -> Result<(Client, Bytes), Failure> {
    #[cfg(feature = "tls")]
    let connector = Connector::new(hosts).map_err(|error| {
        failure::unfit(format!("the certificates for TLS cannot be used ({error}); `tls_ca` and `tls_client` take the content of PEM files"))
    })?;
    let attempts = hosts.configs().iter().enumerate().map(|(number, config)| {
        #[cfg(feature = "tls")]
        let handshake = connector.with(name(config));
        #[cfg(not(feature = "tls"))]
        let handshake = NoTls;
        async move { (number, connect(config, handshake).await) }
    });
    let mut attempts: FuturesUnordered<_> = attempts.collect();
    let mut failures = Vec::new();
    while let Some((number, connected)) = attempts.next().await {
        match connected {
            Ok(connected) => return Ok(connected),
            Err(failure) => failures.push((number, failure)),
        }
    }
    // What a server answered says more than that one did not.
    failures.sort_by_key(|(number, failure)| (failure.code() == "io", *number));
    let first = failures.into_iter().next();
    Err(first.map_or_else(failure::ended, |(_, failure)| failure))
}

/// Connects to one host and logs in.
async fn connect(config: &Config, handshake: Handshake) -> Result<(Client, Bytes), Failure> {
    let socket = socket(config)
        .await
        .map_err(|error| failure::out_of_reach(&error))?;
    let wire = socket.wire();
    let connecting = config.connect_raw(socket, handshake);
    let (client, connection) = connecting.await.map_err(|error| failure::of(&error))?;
    let mut bytes = Bytes { connection, wire };
    if config.get_target_session_attrs() == TargetSessionAttrs::ReadWrite {
        bytes.drive(expect_primary(&client)).await?;
    }
    Ok((client, bytes))
}

/// The name that the server's certificate must have.
#[cfg(feature = "tls")]
fn name(config: &Config) -> &str {
    match config.get_hosts().first() {
        Some(Host::Tcp(name)) => name,
        // There is no TLS over a Unix socket.
        _ => "",
    }
}

async fn socket(config: &Config) -> io::Result<Socket> {
    let port = config.get_ports().first().copied().unwrap_or(5432);
    match config.get_hosts().first() {
        Some(Host::Tcp(name)) => reach::host(name, port).await,
        #[cfg(unix)]
        Some(Host::Unix(folder)) => reach::path(&folder.join(format!(".s.PGSQL.{port}"))).await,
        None => Err(io::ErrorKind::NotFound.into()),
    }
}

/// Fails at a standby.
async fn expect_primary(client: &Client) -> Result<(), Failure> {
    let asked = client.query_typed_one(IS_STANDBY, &[]).await;
    match asked.and_then(|row| row.try_get("is_standby")) {
        Ok(false) => Ok(()),
        Ok(true) => Err(failure::standby()),
        Err(error) => Err(failure::of(&error)),
    }
}
