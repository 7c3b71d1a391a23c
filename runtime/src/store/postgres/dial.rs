//! Opens connections, and sends and receives their bytes.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::time::{Instant, timeout};
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

/// Query that detects a host that refuses writes. It is sent only if the URL names several hosts.
/// libpq does the same for `target_session_attrs=read-write`.
const READ_ONLY: &str = "SELECT pg_catalog.current_setting('transaction_read_only') AS read_only";

/// Pause before the attempt for the next address of a host. Earlier attempts continue meanwhile
/// ("Connection Attempt Delay", RFC 8305, section 5).
const NEXT_ADDRESS: Duration = Duration::from_millis(250);

/// A new connection, and the time at which its credentials are renewed.
pub(super) type Dialed = (Client, IoDriver, Option<Instant>);

pub(super) type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Driver of one connection. It sends and receives bytes only while it is polled.
pub(super) struct IoDriver {
    connection: tokio_postgres::Connection<Socket, Stream>,
    wire: Arc<Wire>,
}

impl IoDriver {
    /// Returns the socket on which any thread can wait for answers.
    pub(super) fn wire(&self) -> &Arc<Wire> {
        &self.wire
    }

    /// Sends and receives bytes. Returns the next message that answers no request, such as a
    /// notification, or the end of the connection.
    pub(super) fn poll_message(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<AsyncMessage, Failure>> {
        self.connection.poll_message(cx).map(|message| {
            let message = message.ok_or_else(failure::ended)?;
            message.map_err(|error| failure::of(&error))
        })
    }

    /// Runs `work`, and sends and receives bytes meanwhile.
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

/// Connects to all hosts at once, so that a hanging host delays nothing. Returns the first
/// connection, and the time at which its credentials are renewed. If there are several hosts, only
/// hosts that accept writes count. `limit` is the time after which the caller gives up.
pub(super) async fn dial(hosts: &Hosts, limit: Duration) -> Result<Dialed, Failure> {
    #[cfg(feature = "tls")]
    let connector = Connector::new(hosts).map_err(|error| {
        failure::unfit(format!("the certificates for TLS cannot be used ({error}); `tls_ca` and `tls_client` take the content of PEM files"))
    })?;
    #[cfg(feature = "tls")]
    let handshake = |host: &str| connector.with(host);
    #[cfg(not(feature = "tls"))]
    let handshake = |_: &str| NoTls;
    let access = hosts.access(limit).await?;
    let configs = access.configs.iter();
    let attempts = configs.map(|config| connect(config, &handshake, limit));
    let dialed = first(attempts, Duration::ZERO).await;
    let (client, io_driver) = dialed.map_err(|failure| access.refused(failure))?;
    Ok((client, io_driver, access.renew_at))
}

/// Returns the first success. The next attempt begins when an earlier one has failed, or after
/// `pause`. If `pause` is zero, all begin at once.
///
/// If all attempts fail, returns the most useful failure. The least useful failure is that of a
/// broken connection (`io`). The second least useful one is that of a standby. Among equally useful
/// failures, returns that of the first attempt.
async fn first<T>(
    attempts: impl Iterator<Item = impl Future<Output = Result<T, Failure>>>,
    pause: Duration,
) -> Result<T, Failure> {
    let mut waiting = attempts
        .enumerate()
        .map(|(number, attempt)| Box::pin(async move { (number, attempt.await) }));
    let mut running = FuturesUnordered::new();
    let mut failures = Vec::new();
    loop {
        let ended = if let Some(attempt) = waiting.next() {
            running.push(attempt);
            if pause.is_zero() {
                continue;
            }
            timeout(pause, running.next()).await.unwrap_or_default()
        } else if running.is_empty() {
            break;
        } else {
            running.next().await
        };
        match ended {
            Some((_, Ok(done))) => return Ok(done),
            Some((number, Err(failure))) => failures.push((number, failure)),
            None => {}
        }
    }
    let silence = |failure: &Failure| match failure.code() {
        "io" => 2,
        failure::STANDBY => 1,
        _ => 0,
    };
    failures.sort_by_key(|(number, failure)| (silence(failure), *number));
    let first = failures.into_iter().next();
    Err(first.map_or_else(failure::ended, |(_, failure)| failure))
}

/// Connects to one host and logs in.
async fn connect(
    config: &Config,
    handshake: &impl Fn(&str) -> Handshake,
    limit: Duration,
) -> Result<(Client, IoDriver), Failure> {
    let port = config.get_ports().first().copied().unwrap_or(5432);
    match config.get_hosts().first() {
        Some(Host::Tcp(name)) => {
            let addresses = reach::addresses(name, port).await;
            let addresses = addresses.map_err(|error| failure::out_of_reach(&error))?;
            // The pauses are so short that the attempt for the last address has at least half of
            // the limit left.
            let many = u32::try_from(addresses.len()).unwrap_or(u32::MAX);
            let pause = NEXT_ADDRESS.min(limit / many.saturating_mul(2));
            let attempts = addresses.into_iter().map(|address| {
                let reaching = reach::address(address);
                log_in(config, handshake(name), reaching)
            });
            first(attempts, pause).await
        }
        #[cfg(unix)]
        Some(Host::Unix(folder)) => {
            let path = folder.join(format!(".s.PGSQL.{port}"));
            // A Unix socket has no TLS.
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

/// Refuses a standby.
async fn expect_primary(client: &Client) -> Result<(), Failure> {
    let asked = client.query_typed_one(READ_ONLY, &[]).await;
    match asked.and_then(|row| row.try_get::<_, String>("read_only")) {
        Ok(read_only) if read_only == "on" => Err(failure::standby()),
        Ok(_) => Ok(()),
        Err(error) => Err(failure::of(&error)),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::{pending, ready};

    use tokio::time::Instant;

    use super::*;

    fn code(done: Result<u32, Failure>) -> &'static str {
        done.expect_err("none succeeds").code()
    }

    /// One attempt fails at once, the second one hangs, and the third one succeeds. Fails if the
    /// failure costs any time, or the hanging attempt more than one pause.
    #[tokio::test(start_paused = true)]
    async fn one_successful_attempt_is_enough() {
        for pause in [Duration::ZERO, NEXT_ADDRESS] {
            let attempts = [2, 0, 1].map(|number| async move {
                match number {
                    0 => pending().await,
                    1 => Ok(1),
                    _ => Err(failure::silent()),
                }
            });
            let began = Instant::now();
            assert_eq!(first(attempts.into_iter(), pause).await.ok(), Some(1));
            // The next attempt begins at once after a failure, and after a pause if an attempt
            // hangs.
            let took = began.elapsed();
            let most = pause + Duration::from_millis(2);
            assert!((pause..=most).contains(&took), "{took:?}");
        }
    }

    /// The attempt for the first address of a host succeeds within the pause. Fails if a second
    /// address is tried nevertheless.
    #[tokio::test(start_paused = true)]
    async fn no_address_is_tried_after_a_success() {
        let begun = Cell::new(0);
        let attempts = (0..3).map(|number| {
            begun.set(begun.get() + 1);
            async move {
                tokio::time::sleep(NEXT_ADDRESS / 2).await;
                Ok(number)
            }
        });
        assert_eq!(first(attempts, NEXT_ADDRESS).await.ok(), Some(0));
        assert_eq!(begun.get(), 1);
    }

    /// Several attempts fail in different ways. Fails if the reported failure is that of a broken
    /// connection or of a standby, although another one explains more.
    #[tokio::test]
    async fn an_error_of_a_server_takes_precedence_over_silence() {
        let all = [failure::ended(), failure::standby(), failure::silent()];
        for (count, expected) in [(3, "timeout"), (2, failure::STANDBY), (1, "io")] {
            let failures = all[..count].iter().cloned();
            let attempts = failures.map(|failure| ready(Err(failure)));
            let failed = first(attempts, Duration::ZERO).await;
            assert_eq!(code(failed), expected);
        }
    }
}
