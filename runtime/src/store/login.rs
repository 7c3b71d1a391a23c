//! Logging in with credentials that change.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use super::credentials::{Credentials, Provider, SourceError};
use super::{Failure, NO_CREDENTIALS, Retry};
use crate::base::io_text::thread_text;
use crate::base::seeded::seeded;
use crate::error::LockError;

/// The source of a pool's credentials.
#[derive(Clone)]
pub(crate) struct Logins {
    provider: Provider,
    /// The runtime on which the pool was connected. The program's function runs there, where its
    /// clients and timers belong, and never on the engine's thread.
    runtime: Option<Handle>,
}

/// A panic cannot leave the runtime half changed, because the pool only spawns tasks there.
impl UnwindSafe for Logins {}
impl RefUnwindSafe for Logins {}

/// Credentials, with the time at which the pool replaces them.
#[derive(Clone)]
pub(crate) struct Login {
    pub(crate) credentials: Credentials,
    pub(crate) renew_at: Option<Instant>,
}

impl Logins {
    /// Must be called on the thread that connects the pool.
    pub(crate) fn new(provider: Provider) -> Self {
        Self {
            provider,
            runtime: Handle::try_current().ok(),
        }
    }

    /// Asks the program for credentials, for at most `limit`.
    pub(crate) async fn next(&self, limit: Duration) -> Result<Login, Failure> {
        let asked = Instant::now();
        let credentials = match timeout(limit, self.ask()).await {
            Ok(Ok(credentials)) => credentials,
            Ok(Err(error)) => return Err(none(&format!("failed: {error}"))),
            Err(_) => return Err(none(&format!("did not end within {limit:?}"))),
        };
        // A time beyond the clock's range never comes.
        let fresh = credentials.fresh_for();
        let fresh = fresh.filter(|_| !seeded!(LoginNotRenewed));
        let renew_at = fresh.and_then(|fresh| asked.checked_add(fresh));
        Ok(Login {
            credentials,
            renew_at,
        })
    }

    async fn ask(&self) -> Result<Credentials, SourceError> {
        if let Some(runtime) = &self.runtime {
            let provider = self.provider.clone();
            let asking = runtime.spawn(async move { provider.provide().await });
            match asking.await {
                Ok(answer) => return answer,
                Err(error) if error.is_panic() => return Err("it panicked".into()),
                // That runtime is gone.
                Err(_) => {}
            }
        }
        self.ask_on_a_thread().await
    }

    /// Runs the program's function on a separate thread with its own runtime.
    async fn ask_on_a_thread(&self) -> Result<Credentials, SourceError> {
        let (sender, receiver) = oneshot::channel();
        let provider = self.provider.clone();
        let body = move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            let answer = match runtime {
                Ok(runtime) => runtime.block_on(provider.provide()),
                Err(error) => Err(thread_text(&error).into()),
            };
            // The receiver may have stopped waiting.
            let _ = sender.send(answer);
        };
        std::thread::Builder::new()
            .name("leasehold-login".to_owned())
            .spawn(body)
            .map_err(|error| thread_text(&error))?;
        receiver.await.unwrap_or_else(|_| Err("it panicked".into()))
    }
}

impl fmt::Debug for Logins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Logins").finish_non_exhaustive()
    }
}

fn none(why: &str) -> Failure {
    Failure::unavailable(
        NO_CREDENTIALS,
        format!(
            "the pool has no credentials for a connection: the function or file for them {why}"
        ),
        Retry::Later,
        false,
    )
}

/// Adds the user to the failure of a refused login. If the credentials change, a later attempt may
/// succeed.
pub(crate) fn refused(failure: Failure, user: &str, changes: bool) -> Failure {
    let LockError::Unavailable { source } = &failure.error else {
        return failure;
    };
    if !failure.is_refused_password() {
        return failure;
    }
    let retry = if changes { Retry::Later } else { failure.retry };
    let text = format!("the password of the user `{user}` was refused: {source}");
    Failure::unavailable(source.code(), text, retry, failure.executed)
}
