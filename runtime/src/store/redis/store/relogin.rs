//! Logins on the open connection with new credentials, before the present ones expire.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use redis::Value;
use tokio::time::Instant;

use super::RedisStore;
use crate::base::reporter;
use crate::store::Failure;
use crate::store::redis::commands::failure;
use crate::store::redis::wire::connection::Content;
use crate::store::redis::wire::login::Access;

/// Pause after a failed or refused login.
const RETRY: Duration = Duration::from_secs(1);

type Asking = Pin<Box<dyn Future<Output = Result<Access, Failure>> + Send>>;

/// The next login on the present connection.
#[derive(Default)]
pub(super) struct Relogin {
    at: Option<Instant>,
    /// The pending call of the program's credentials function.
    asking: Option<Asking>,
}

impl Relogin {
    pub(super) fn at(at: Option<Instant>) -> Self {
        Self { at, asking: None }
    }
}

impl RedisStore {
    /// Returns the time of the next login, if there is a connection for it.
    pub(super) fn relogin_due(&self) -> Option<Instant> {
        self.relogin.at.filter(|_| self.connection.is_some())
    }

    /// Gets new credentials if they are due, and logs in with them. Returns true if it wrote the
    /// command for a login.
    pub(super) fn poll_relogin(&mut self, cx: &mut Context<'_>) -> bool {
        if self.relogin_due().is_some_and(|at| at <= Instant::now()) {
            let asking = self.address.clone().access(self.io_timeout);
            self.relogin = Relogin {
                at: None,
                asking: Some(Box::pin(asking)),
            };
        }
        let Some(asking) = &mut self.relogin.asking else {
            return false;
        };
        let Poll::Ready(access) = asking.as_mut().poll(cx) else {
            return false;
        };
        self.relogin.asking = None;
        match (access, &mut self.connection) {
            (Ok(access), Some(connection)) => {
                connection.out().add(&access.command());
                connection.send(Content::Login(Box::new(access)), self.io_timeout);
                self.unsent = true;
                true
            }
            (Err(failure), _) => {
                self.not_renewed(failure);
                false
            }
            // There is no connection to log in on. The next connection gets new credentials anyway.
            (Ok(_), None) => false,
        }
    }

    /// Handles the answer to a login. After a refusal, the connection keeps its earlier login.
    pub(super) fn logged_in(&mut self, access: &Access, answers: Vec<Value>) {
        match answers.into_iter().next() {
            Some(Value::ServerError(error)) => {
                let failure = failure::broken(&error.into());
                self.not_renewed(access.refused(failure));
            }
            _ => self.relogin = Relogin::at(access.renew_at),
        }
    }

    fn not_renewed(&mut self, failure: Failure) {
        self.relogin = Relogin::at(Some(Instant::now() + RETRY));
        let server = self.address.to_string();
        reporter::log(move || {
            tracing::warn!(%server, error = %failure.error, "the login is not renewed; trying again");
        });
    }
}
