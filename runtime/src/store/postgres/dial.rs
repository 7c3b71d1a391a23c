//! Opening a connection, and moving its bytes until it is in use.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio_postgres::{Client, Socket};

use super::failure;
use super::hosts::Hosts;
use crate::store::Failure;

#[cfg(feature = "tls")]
use super::tls::Stream;
#[cfg(not(feature = "tls"))]
use tokio_postgres::tls::NoTlsStream as Stream;

pub(super) type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The bytes of a connection.
pub(super) type Wire = tokio_postgres::Connection<Socket, Stream>;

/// Connects to all hosts at once; the first one that takes writes counts. So a host that hangs
/// holds nothing up.
pub(super) async fn dial(hosts: &Hosts) -> Result<(Client, Wire), Failure> {
    #[cfg(feature = "tls")]
    let connector = super::tls::Connector::new(hosts).map_err(|error| {
        failure::unfit(format!("the certificates for TLS cannot be used ({error}); `tls_ca` and `tls_client` take the content of PEM files"))
    })?;
    #[cfg(not(feature = "tls"))]
    let connector = tokio_postgres::NoTls;
    let attempts = hosts.configs().iter().enumerate().map(|(number, config)| {
        #[cfg(feature = "tls")]
        let connector = connector.clone();
        async move { (number, config.connect(connector).await) }
    });
    let mut attempts: FuturesUnordered<_> = attempts.collect();
    let mut failures = Vec::new();
    while let Some((number, connected)) = attempts.next().await {
        match connected {
            Ok(connected) => return Ok(connected),
            Err(error) => failures.push((number, failure::of(&error))),
        }
    }
    // What a server answered says more than that one did not.
    failures.sort_by_key(|(number, failure)| (failure.code() == "io", *number));
    let first = failures.into_iter().next();
    Err(first.map_or_else(failure::ended, |(_, failure)| failure))
}

/// Does `work`, and moves the bytes of the connection meanwhile.
pub(super) async fn drive<T>(
    wire: &mut Wire,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let mut work = pin!(work);
    poll_fn(|cx| {
        loop {
            if let Poll::Ready(done) = work.as_mut().poll(cx) {
                return Poll::Ready(done);
            }
            match wire.poll_message(cx) {
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(failure::of(&error))),
                Poll::Ready(None) => return Poll::Ready(Err(failure::ended())),
                Poll::Pending => return work.as_mut().poll(cx),
            }
        }
    })
    .await
}
