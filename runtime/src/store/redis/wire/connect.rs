//! Opens a connection to a server and sets it up.

use std::time::Duration;

use redis::{Cmd, Pipeline, ProtocolVersion, RedisError, Value, cmd};
use tokio::time::{Instant, timeout};

use super::line::Line;
use super::login::{Access, speaks_no_resp3};
use super::open;
use super::server::Server;
use crate::base::reporter;
use crate::error::LockError;
use crate::store::redis::commands::{failure, scripts};
use crate::store::redis::server_info::{Info, Role};
use crate::store::{Failure, Retry};

/// An open connection. `Server::connect` returns it with all scripts loaded.
pub(crate) struct OpenedConnection {
    pub(crate) line: Line,
    /// True if the server can send messages on this connection without a request (RESP3).
    pub(crate) has_pushes: bool,
    pub(crate) round_trip: Duration,
    /// The server's role (master or replica) when the connection was opened. `None` if the user may
    /// not run `INFO`.
    pub(crate) role: Option<Role>,
    /// The server's `INFO` when the connection was opened.
    pub(crate) info: Option<Info>,
    /// The server's host, if the connection leaves this machine without encryption, so that others
    /// on the network can read it.
    pub(crate) readable: Option<String>,
    /// True if this connection is subscribed to the channel on which other processes notify this
    /// process.
    pub(crate) listening: bool,
    /// Time at which the connection logs in again, with new credentials.
    pub(crate) renew_login_at: Option<Instant>,
}

impl OpenedConnection {
    /// Returns the connection, or an error if its server is a replica. A replica that lags behind
    /// its master would report held locks as gone. The caller tries again, because the address may
    /// lead to the master later. Accepts a server with an unknown role. Also accepts any server of
    /// a cluster, because there a replica answers with the address of its master.
    pub(crate) fn if_it_leads(self, in_cluster: bool) -> Result<Self, Failure> {
        if in_cluster || self.role.is_none_or(|role| role.is_master) {
            return Ok(self);
        }
        Err(Failure::unavailable(
            "READONLY",
            "the server is a replica now; point the URL at its master, or use redis-sentinel://"
                .to_owned(),
            Retry::Later,
            false,
        ))
    }

    /// Subscribes to `channel`, and tests the permission to publish to it. If the server refuses
    /// either, or supports only RESP2, waiting calls are not notified of a free lock. They repeat
    /// their requests from time to time instead. Fails if the server does not answer in time.
    pub(crate) async fn listen(&mut self, channel: &str, limit: Duration) -> Result<(), Failure> {
        if !self.has_pushes {
            return Ok(());
        }
        let subscribed = timeout(limit, self.subscribe(channel)).await;
        if let Some(error) = self.line.ended() {
            return Err(failure::broken(error));
        }
        self.listening = match subscribed {
            Ok(Ok(())) => true,
            Ok(Err(error)) => {
                reporter::log(move || {
                    tracing::warn!(
                        %error,
                        "the server refuses SUBSCRIBE or PUBLISH; waiting calls poll instead of \
                         being notified. Allow both commands, on the namespace's channels"
                    );
                });
                false
            }
            Err(_) => false,
        };
        Ok(())
    }

    async fn subscribe(&mut self, channel: &str) -> Result<(), RedisError> {
        self.do_one(cmd("SUBSCRIBE").arg(channel)).await?;
        // Tests the permission to publish, with an empty message. Without this permission, this
        // process could not notify the holder of a lock when it begins to wait for that lock.
        self.do_one(cmd("PUBLISH").arg(channel).arg("")).await
    }

    async fn do_one(&mut self, command: &Cmd) -> Result<(), RedisError> {
        let mut pipeline = Pipeline::new();
        pipeline.add_command(command.clone());
        let answers = self.ask(&pipeline).await?;
        answers.into_iter().try_for_each(|answer| match answer {
            Value::ServerError(error) => Err(error.into()),
            _ => Ok(()),
        })
    }

    /// Sends `questions` after the commands already in the buffer, and waits for the answers.
    pub(crate) async fn ask(&mut self, questions: &Pipeline) -> Result<Vec<Value>, RedisError> {
        self.line.ask(questions).await
    }
}

impl Server {
    /// Returns the server's answers to `questions`. Uses a separate connection, which is closed
    /// afterwards.
    pub(crate) async fn ask(
        self,
        questions: &Pipeline,
        limit: Duration,
    ) -> Result<Vec<Value>, Failure> {
        let asked = async {
            let access = self.access(limit).await?;
            let failed = |error: RedisError| self.failed(&error, &access);
            let mut opened = self.open_newest(&access).await.map_err(failed)?;
            opened.ask(questions).await.map_err(failed)
        };
        match timeout(limit, asked).await {
            Ok(answers) => answers,
            Err(_) => Err(self.silent(limit)),
        }
    }

    /// Connects within `limit`, with RESP3 if the server supports it, otherwise with RESP2.
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
        let access = self.access(limit).await?;
        let failed = |error: RedisError| self.failed(&error, &access);
        let mut opened = self.open_newest(&access).await.map_err(failed)?;
        let mut start = Pipeline::new();
        start.add_command(scripts::exist()).add_command(cmd("INFO"));
        let sent_at = Instant::now();
        let answers = opened.ask(&start).await;
        let answers = answers.map_err(failed)?;
        opened.round_trip = sent_at.elapsed();
        opened.info = Info::read(answers.last());
        opened.role = opened.info.as_ref().and_then(Info::role);
        // Only missing scripts are loaded: the sources of all scripts are 111 kB, and most servers
        // have them already.
        let missing = scripts::missing(answers.first());
        let loaded = opened.ask(&scripts::load(&missing)).await;
        let loaded = loaded.map_err(failed)?;
        match scripts::check_loaded(&missing, loaded) {
            Ok(()) => Ok(opened),
            Err(failure) => Err(self.located(&failure)),
        }
    }

    async fn open_newest(&self, access: &Access) -> Result<OpenedConnection, RedisError> {
        match self.open(access, ProtocolVersion::RESP3).await {
            Err(error) if speaks_no_resp3(&error) => {
                self.open(access, ProtocolVersion::RESP2).await
            }
            opened => opened,
        }
    }

    async fn open(
        &self,
        access: &Access,
        protocol: ProtocolVersion,
    ) -> Result<OpenedConnection, RedisError> {
        // Boxed. Otherwise, the TLS handshake's state would enlarge every future that connects.
        let line = Box::pin(open::open(self, access, protocol)).await?;
        Ok(OpenedConnection {
            line,
            has_pushes: protocol != ProtocolVersion::RESP2,
            round_trip: Duration::ZERO,
            role: None,
            info: None,
            readable: self.readable(),
            listening: false,
            renew_login_at: access.renew_at,
        })
    }

    /// Returns the failure for `error`. Its text contains the server's address and, if the server
    /// refused the login, the user.
    fn failed(&self, error: &RedisError, access: &Access) -> Failure {
        self.located(&access.refused(failure::broken(error)))
    }

    fn located(&self, failure: &Failure) -> Failure {
        let LockError::Unavailable { source } = &failure.error else {
            return failure.clone();
        };
        // `executed` is false: the engine's requests are sent only after the set-up of the
        // connection, so the server cannot have carried out any of them.
        Failure::unavailable(
            source.code(),
            format!("{self}: {source}"),
            failure.retry,
            false,
        )
    }
}
