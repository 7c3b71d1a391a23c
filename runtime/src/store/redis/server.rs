//! How to reach a server.

use std::fmt;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, ConnectionInfo, ErrorKind, IntoConnectionInfo, ProtocolVersion,
    PushInfo, RedisError, cmd,
};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use super::info::Info;
use super::{reply, scripts};
use crate::LockError;
use crate::store::{Failure, Retry};

/// How long a request may stay unanswered, at least, before it is given up for good. The engine has retried long before;
/// an answer that comes late can still settle what an earlier attempt did.
const DRAIN: Duration = Duration::from_secs(5);

/// How many batches may wait to be written.
const WRITE_BUFFER: usize = 1024;

/// A server's address and credentials. Shows without the credentials.
#[derive(Clone)]
pub(crate) struct Server {
    info: ConnectionInfo,
}

/// A connection that is set up and has the scripts loaded.
pub(super) struct Link {
    pub(super) connection: MultiplexedConnection,
    /// What the server sends unasked, and the end of the connection. Nothing with RESP2.
    pub(super) pushes: mpsc::UnboundedReceiver<PushInfo>,
    pub(super) round_trip: Duration,
    /// What the server said of itself when the connection was made, if it may be asked.
    pub(super) info: Option<Info>,
    /// Whether what is published for this process arrives here.
    pub(super) listening: bool,
}

impl Link {
    /// Subscribes to `channel`. Where the server does not permit it, or speaks only RESP2, this process looks from time to time
    /// instead of being told.
    pub(super) async fn listen(&mut self, channel: &str, limit: Duration) {
        if self.pushes.is_closed() {
            return;
        }
        self.listening = match timeout(limit, self.connection.subscribe(channel)).await {
            Ok(Ok(())) => true,
            Ok(Err(error)) => {
                tracing::warn!(%error, "the server refuses SUBSCRIBE; calls that wait look from time to time instead of being told");
                false
            }
            Err(_) => false,
        };
    }
}

impl Server {
    pub(crate) fn parse(url: &str) -> Result<Self, LockError> {
        // The crate's own text may quote a part of the URL, and with it the password.
        let info = url.into_connection_info().map_err(|_| {
            LockError::config(
                "the lock store's URL is not understood; write redis://[user:password@]host[:port][/db] with special \
                 characters percent-encoded, or redis+unix:///path",
            )
        })?;
        #[cfg(feature = "tls")]
        if url.starts_with("rediss") {
            choose_tls_provider();
        }
        Ok(Self { info })
    }

    /// Connects within `limit`: RESP3 where the server has it, else RESP2.
    pub(super) async fn connect(self, limit: Duration) -> Result<Link, Failure> {
        match timeout(limit, self.link(limit)).await {
            Ok(connected) => connected,
            Err(_) => Err(reply::failure(
                "timeout",
                format!(
                    "{self} did not answer within {limit:?}; check that it is up and reachable"
                ),
                Retry::Later,
                false,
            )),
        }
    }

    async fn link(&self, limit: Duration) -> Result<Link, Failure> {
        let link = match self.open(ProtocolVersion::RESP3, limit).await {
            Err(error) if speaks_no_resp3(&error) => self.open(ProtocolVersion::RESP2, limit).await,
            opened => opened,
        };
        let mut link = link.map_err(|error| self.failed(&error))?;
        let mut start = scripts::load();
        start.add_command(cmd("INFO"));
        let sent_at = Instant::now();
        let answers = link.connection.send_packed_commands(&start, 0, start.len());
        let mut answers = answers.await.map_err(|error| self.failed(&error))?;
        link.round_trip = sent_at.elapsed();
        link.info = Info::read(answers.pop().as_ref());
        match scripts::check_loaded(answers) {
            Ok(()) => Ok(link),
            Err(failure) => Err(self.located(&failure)),
        }
    }

    async fn open(&self, protocol: ProtocolVersion, limit: Duration) -> Result<Link, RedisError> {
        let (sender, pushes) = mpsc::unbounded_channel();
        let mut config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(Some(DRAIN.max(limit)))
            .set_pipeline_buffer_size(WRITE_BUFFER);
        if protocol != ProtocolVersion::RESP2 {
            config = config.set_push_sender(sender);
        }
        let settings = self.info.redis_settings().clone().set_protocol(protocol);
        let info = self.info.clone().set_redis_settings(settings);
        let connection = Client::open(info)?
            .get_multiplexed_async_connection_with_config(&config)
            .await?;
        Ok(Link {
            connection,
            pushes,
            round_trip: Duration::ZERO,
            info: None,
            listening: false,
        })
    }

    /// What went wrong, with the place where it did.
    fn failed(&self, error: &RedisError) -> Failure {
        self.located(&reply::broken(error))
    }

    fn located(&self, failure: &Failure) -> Failure {
        let LockError::Unavailable { source } = &failure.error else {
            return failure.clone();
        };
        // Nothing but the set-up was sent.
        reply::failure(
            source.code(),
            format!("{self}: {source}"),
            failure.retry,
            false,
        )
    }
}

/// The crate `redis` panics without a provider for the whole process. The program's own choice stands, if it was made before
/// the pool is built.
#[cfg(feature = "tls")]
fn choose_tls_provider() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // An error says that somebody was faster, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}

fn speaks_no_resp3(error: &RedisError) -> bool {
    error.kind() == ErrorKind::RESP3NotSupported
        || error.code() == Some("NOPROTO")
        || error
            .detail()
            .is_some_and(|detail| detail.contains("unknown command"))
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.info.addr() {
            redis::ConnectionAddr::TcpTls { .. } => "rediss://",
            redis::ConnectionAddr::Unix(_) => "redis+unix://",
            _ => "redis://",
        };
        write!(f, "{scheme}{}", self.info.addr())?;
        match self.info.redis_settings().db() {
            0 => Ok(()),
            db => write!(f, "/{db}"),
        }
    }
}
