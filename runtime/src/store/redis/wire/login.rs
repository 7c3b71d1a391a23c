//! The first commands on a connection, which set the protocol, credentials, database and name.

use redis::{Cmd, ErrorKind, Pipeline, ProtocolVersion, RedisError, Value, cmd};
use tokio::time::Instant;

use super::introduction;
use super::line::Line;
use crate::store::{Failure, login};

/// The user and the password of one connection.
pub(crate) struct Access {
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    /// Time at which the connection logs in again, with new credentials.
    pub(crate) renew_at: Option<Instant>,
    /// True if the next login may get other credentials. A refused login is then retried.
    pub(crate) changes: bool,
}

impl Access {
    /// Returns the command that logs in on an open connection.
    pub(crate) fn command(&self) -> Cmd {
        let password = self.password.as_deref().unwrap_or_default();
        auth(self.user.as_deref(), password)
    }

    /// Adds the user to the failure of a refused login.
    pub(crate) fn refused(&self, failure: Failure) -> Failure {
        let user = self.user.as_deref().unwrap_or("default");
        login::refused(failure, user, self.changes)
    }
}

/// Logs in, selects the database `db`, and sends the names of the process and of the library.
pub(crate) async fn login(
    line: &mut Line,
    access: &Access,
    db: i64,
    protocol: ProtocolVersion,
) -> Result<(), RedisError> {
    match try_login(line, access, db, protocol, access.user.as_deref()).await {
        // Redis 5 has a password but no users, so the login is repeated without the user.
        Err(error) if reports(&error, "wrong number of arguments for 'auth'") => {
            try_login(line, access, db, protocol, None).await
        }
        done => done,
    }
}

async fn try_login(
    line: &mut Line,
    access: &Access,
    db: i64,
    protocol: ProtocolVersion,
    user: Option<&str>,
) -> Result<(), RedisError> {
    let password = access.password.as_deref();
    let hello = match protocol {
        ProtocolVersion::RESP2 => password.map(|password| auth(user, password)),
        _ => Some(hello(user, password)),
    };
    let select = (db != 0).then(|| cmd("SELECT").arg(db).to_owned());
    let needed = hello.iter().chain(&select).count();
    let mut commands = Pipeline::new();
    for command in hello.into_iter().chain(select).chain(introduction::names()) {
        commands.add_command(command);
    }
    let answers = line.ask(&commands).await?;
    let mut answers = answers.into_iter().enumerate();
    answers.try_for_each(|(at, answer)| match answer {
        // Most errors of the commands that set names are ignored, because the connection works
        // without names. With RESP2 and without credentials, these commands may be the first ones.
        // If the server requires a password, it refuses them with `NOAUTH`, and the login fails.
        Value::ServerError(error) if at < needed || error.code() == "NOAUTH" => Err(error.into()),
        _ => Ok(()),
    })
}

fn auth(user: Option<&str>, password: &str) -> Cmd {
    cmd("AUTH").arg(user).arg(password).to_owned()
}

fn hello(user: Option<&str>, password: Option<&str>) -> Cmd {
    let mut hello = cmd("HELLO");
    hello.arg(3);
    if let Some(password) = password {
        hello
            .arg("AUTH")
            .arg(user.unwrap_or("default"))
            .arg(password);
    }
    hello
}

/// True if the server supports only the older protocol, RESP2.
pub(crate) fn speaks_no_resp3(error: &RedisError) -> bool {
    error.code() == Some("NOPROTO") || reports(error, "unknown command")
}

fn reports(error: &RedisError, text: &str) -> bool {
    let is_the_server_s = matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension);
    is_the_server_s && error.detail().is_some_and(|detail| detail.contains(text))
}
