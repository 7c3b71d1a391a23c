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

/// Moves the bytes of one connection while it is polled, as for Redis.
pub(super) struct IoDriver {
    connection: tokio_postgres::Connection<Socket, Stream>,
    wire: Arc<Wire>,
}

impl IoDriver {
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

/// Connects to all addresses of all hosts at once; the first one that takes writes counts. So an
/// address that hangs holds nothing up.
pub(super) async fn dial(hosts: &Hosts) -> Result<(Client, IoDriver), Failure> {
    #[cfg(feature = "tls")]
    let connector = Connector::new(hosts).map_err(|error| {
        failure::unfit(format!("the certificates for TLS cannot be used ({error}); `tls_ca` and `tls_client` take the content of PEM files"))
    })?;
    #[cfg(feature = "tls")]
    let handshake = |host: &str| connector.with(host);
    #[cfg(not(feature = "tls"))]
    let handshake = |_: &str| NoTls;
    let hosts = hosts.configs().iter();
    first(hosts.map(|config| connect(config, &handshake))).await
}

/// The first success. Without one, what a server answered says more than that one did not; of such
/// failures the first in order counts.
async fn first<T>(
    attempts: impl Iterator<Item = impl Future<Output = Result<T, Failure>>>,
) -> Result<T, Failure> {
    let numbered = attempts
        .enumerate()
        .map(|(number, attempt)| async move { (number, attempt.await) });
    let mut attempts: FuturesUnordered<_> = numbered.collect();
    let mut failures = Vec::new();
    while let Some((number, done)) = attempts.next().await {
        match done {
            Ok(done) => return Ok(done),
            Err(failure) => failures.push((number, failure)),
        }
    }
    failures.sort_by_key(|(number, failure)| (failure.code() == "io", *number));
    let first = failures.into_iter().next();
    Err(first.map_or_else(failure::ended, |(_, failure)| failure))
}

/// Connects to one host and logs in.
async fn connect(
    config: &Config,
    handshake: &impl Fn(&str) -> Handshake,
) -> Result<(Client, IoDriver), Failure> {
    let port = config.get_ports().first().copied().unwrap_or(5432);
    match config.get_hosts().first() {
        Some(Host::Tcp(name)) => {
            let addresses = reach::addresses(name, port).await;
            let addresses = addresses.map_err(|error| failure::out_of_reach(&error))?;
            first(addresses.into_iter().map(|address| {
                let reaching = reach::address(address);
                log_in(config, handshake(name), reaching)
            }))
            .await
        }
        #[cfg(unix)]
        Some(Host::Unix(folder)) => {
            let path = folder.join(format!(".s.PGSQL.{port}"));
            // There is no TLS over a Unix socket.
            log_in(config, handshake(""), reach::path(&path)).await
        }
        None => Err(failure::ended()),
    }
}

async fn log_in(
    config: &Config,
    handshake: Handshake,
    reaching: impl Future<Output = io::Result<Socket>>,
) -> Result<(Client, IoDriver), Failure> {
    let socket = reaching
        .await
        .map_err(|error| failure::out_of_reach(&error))?;
    let wire = socket.wire();
    let connecting = config.connect_raw(socket, handshake);
    let (client, connection) = connecting.await.map_err(|error| failure::of(&error))?;
    let mut io_driver = IoDriver { connection, wire };
    if config.get_target_session_attrs() == TargetSessionAttrs::ReadWrite {
        io_driver.drive(expect_primary(&client)).await?;
    }
    Ok((client, io_driver))
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

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    fn code(done: Result<u32, Failure>) -> &'static str {
        done.expect_err("none succeeds").code()
    }

    /// Fails if an attempt that fails or hangs holds up one that succeeds.
    #[tokio::test]
    async fn one_success_is_enough() {
        let attempts = [2, 0, 1].map(|number| async move {
            match number {
                0 => pending().await,
                1 => Ok(1),
                _ => Err(failure::silent()),
            }
        });
        assert_eq!(first(attempts.into_iter()).await.ok(), Some(1));
    }

    /// Fails if a server that does not answer hides what another one said.
    #[tokio::test]
    async fn what_a_server_said_counts_before_silence() {
        let failures = [failure::ended(), failure::standby(), failure::silent()];
        let attempts = failures.map(|failure| ready(Err(failure)));
        assert_eq!(code(first(attempts.into_iter()).await), "25006");
        let silent = [failure::ended(), failure::ended()].map(|failure| ready(Err(failure)));
        assert_eq!(code(first(silent.into_iter()).await), "io");
    }
}
