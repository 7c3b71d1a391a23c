//! Connecting to a server, and setting the connection up.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, ErrorKind, Pipeline, ProtocolVersion, PushInfo, RedisError, Value, cmd,
};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use super::introduction;
use super::io_driver::IoDriver;
use super::open;
use super::server::Server;
use crate::base::reporter;
use crate::error::LockError;
use crate::store::redis::commands::{failure, scripts};
use crate::store::redis::server_info::{Info, Role};
use crate::store::{Failure, Retry};

/// How long a request may stay unanswered, at least, before the connection gives it up for good.
/// The engine has retried long before. A late answer can still settle what an earlier attempt did.
const DRAIN: Duration = Duration::from_secs(5);

/// How many pipelines may wait to be written.
const WRITE_BUFFER: usize = 1024;

/// A connection that is set up and has the scripts loaded.
pub(crate) struct OpenedConnection {
    pub(crate) connection: MultiplexedConnection,
    /// Must be polled for the connection to work.
    pub(crate) io_driver: IoDriver,
    /// What the server sends unasked, and the end of the connection. Stays empty with RESP2.
    pub(crate) pushes: mpsc::UnboundedReceiver<PushInfo>,
    pub(crate) round_trip: Duration,
    /// The server's role when the connection was made, if the user may ask for it.
    pub(crate) role: Option<Role>,
    /// What the server said of itself then.
    pub(crate) info: Option<Info>,
    /// The host, if what is sent there can be read on the way.
    pub(crate) readable: Option<String>,
    /// Whether what is published for this process arrives here.
    pub(crate) listening: bool,
}

impl OpenedConnection {
    /// Subscribes to `channel` and tries to publish there. Where the server does not permit one of
    /// them, or speaks only RESP2, this process looks from time to time instead of being told.
    pub(crate) async fn listen(&mut self, channel: &str, limit: Duration) {
        if self.pushes.is_closed() {
            return;
        }
        self.listening = match timeout(limit, self.subscribe(channel)).await {
            Ok(Ok(())) => true,
            Ok(Err(error)) => {
                reporter::log(move || {
                    tracing::warn!(
                        %error,
                        "the server refuses SUBSCRIBE or PUBLISH; calls that wait look from time to time instead of being told. \
                         Permit both commands, on the namespace's channels"
                    );
                });
                false
            }
            Err(_) => false,
        };
    }

    async fn subscribe(&mut self, channel: &str) -> Result<(), RedisError> {
        self.io_driver
            .drive(self.connection.subscribe(channel))
            .await?;
        // An empty message, to try the permission. A process that may not publish could not tell a
        // lock's holder that it waits.
        let told = cmd("PUBLISH").arg(channel).arg("").to_owned();
        self.io_driver
            .drive(told.query_async(&mut self.connection))
            .await
    }

    /// Sends `questions` and waits for the answers.
    pub(crate) async fn ask(&mut self, questions: &Pipeline) -> Result<Vec<Value>, RedisError> {
        let answers = self
            .connection
            .send_packed_commands(questions, 0, questions.len());
        self.io_driver.drive(answers).await
    }
}

impl Server {
    /// The server's answers, over a connection of their own that is closed then.
    pub(crate) async fn ask(
        self,
        questions: &Pipeline,
        limit: Duration,
    ) -> Result<Vec<Value>, Failure> {
        let asked = async {
            let mut opened = self.open_newest(limit).await?;
            let mut answers = opened.ask(&introduction::introduced(questions)).await?;
            answers.drain(..1.min(answers.len()));
            Ok::<_, RedisError>(answers)
        };
        match timeout(limit, asked).await {
            Ok(answers) => answers.map_err(|error| self.failed(&error)),
            Err(_) => Err(self.silent(limit)),
        }
    }

    /// Connects within `limit`: RESP3 where the server has it, else RESP2.
    pub(crate) async fn connect(self, limit: Duration) -> Result<OpenedConnection, Failure> {
        match timeout(limit, self.set_up(limit)).await {
            Ok(connected) => connected,
            Err(_) => Err(self.silent(limit)),
        }
    }

    fn silent(&self, limit: Duration) -> Failure {
        Failure::unavailable(
            "timeout",
            format!(
                "{self} did not answer within {limit:?}; check that {}",
                self.suspicion()
            ),
            Retry::Later,
            false,
        )
    }

    async fn set_up(&self, limit: Duration) -> Result<OpenedConnection, Failure> {
        let opened = self.open_newest(limit).await;
        let mut opened = opened.map_err(|error| self.failed(&error))?;
        let mut start = scripts::load();
        start.add_command(cmd("INFO"));
        let sent_at = Instant::now();
        let answers = opened.ask(&introduction::introduced(&start)).await;
        let mut answers = answers.map_err(|error| self.failed(&error))?;
        answers.drain(..1.min(answers.len()));
        opened.round_trip = sent_at.elapsed();
        opened.info = Info::read(answers.pop().as_ref());
        opened.role = opened.info.as_ref().and_then(Info::role);
        match scripts::check_loaded(answers) {
            Ok(()) => Ok(opened),
            Err(failure) => Err(self.located(&failure)),
        }
    }

    async fn open_newest(&self, limit: Duration) -> Result<OpenedConnection, RedisError> {
        match self.open(ProtocolVersion::RESP3, limit).await {
            Err(error) if speaks_no_resp3(&error) => self.open(ProtocolVersion::RESP2, limit).await,
            opened => opened,
        }
    }

    async fn open(
        &self,
        protocol: ProtocolVersion,
        limit: Duration,
    ) -> Result<OpenedConnection, RedisError> {
        let (sender, pushes) = mpsc::unbounded_channel();
        let mut config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(Some(DRAIN.max(limit)))
            .set_pipeline_buffer_size(WRITE_BUFFER);
        if protocol != ProtocolVersion::RESP2 {
            config = config.set_push_sender(sender);
        }
        let settings = self.info().redis_settings().clone();
        let settings = introduction::tell_library(settings.set_protocol(protocol));
        // Boxed: the hand-shake of TLS would be a part of every future that connects.
        let (connection, io_driver) = Box::pin(open::open(self, &settings, config)).await?;
        Ok(OpenedConnection {
            connection,
            io_driver,
            pushes,
            round_trip: Duration::ZERO,
            role: None,
            info: None,
            readable: self.readable(),
            listening: false,
        })
    }

    /// The failure, with the server's address.
    fn failed(&self, error: &RedisError) -> Failure {
        self.located(&failure::broken(error))
    }

    fn located(&self, failure: &Failure) -> Failure {
        let LockError::Unavailable { source } = &failure.error else {
            return failure.clone();
        };
        // Only the set-up was sent, so nothing can have been carried out.
        Failure::unavailable(
            source.code(),
            format!("{self}: {source}"),
            failure.retry,
            false,
        )
    }
}

fn speaks_no_resp3(error: &RedisError) -> bool {
    error.kind() == ErrorKind::RESP3NotSupported
        || error.code() == Some("NOPROTO")
        || error
            .detail()
            .is_some_and(|detail| detail.contains("unknown command"))
}
