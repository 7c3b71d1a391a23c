//! Logins with credentials that change.

use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use super::credentials::{Credentials, Provider, SourceError};
use super::{Failure, NO_CREDENTIALS, Retry};
use crate::base::io_text::thread_text;
use crate::base::seeded::seeded;
use crate::error::LockError;

/// Credentials, with the time at which the pool replaces them.
#[derive(Clone)]
pub(crate) struct Login {
    pub(crate) credentials: Credentials,
    pub(crate) renew_at: Option<Instant>,
}

impl Provider {
    /// Gets credentials from the program, which has at most `limit` to provide them.
    pub(crate) async fn next(&self, limit: Duration) -> Result<Login, Failure> {
        let asked = Instant::now();
        let credentials = match timeout(limit, self.ask()).await {
            Ok(Ok(credentials)) => credentials,
            Ok(Err(error)) => return Err(none(&format!("failed: {error}"))),
            Err(_) => return Err(none(&format!("did not end within {limit:?}"))),
        };
        // If the credentials stay fresh for longer than the clock can represent, the pool never
        // replaces them.
        let fresh = credentials.fresh_for();
        let fresh = fresh.filter(|_| !seeded!(LoginNotRenewed));
        let renew_at = fresh.and_then(|fresh| asked.checked_add(fresh));
        Ok(Login {
            credentials,
            renew_at,
        })
    }

    /// Runs the program's function for credentials on a separate thread with its own runtime. The
    /// reasons: the function may block its thread, and a synchronous call may block the caller's
    /// runtime. If the caller stops waiting, the function's future is dropped at its next poll.
    async fn ask(&self) -> Result<Credentials, SourceError> {
        if seeded!(CredentialsOnEngine) {
            return self.provide().await;
        }
        let (mut sender, receiver) = oneshot::channel();
        let provider = self.clone();
        let permit = self.permit().await?;
        let body = move || {
            let _permit = permit;
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            let answer = match &runtime {
                Ok(runtime) => {
                    let mut answer = pin!(provider.provide());
                    runtime.block_on(poll_fn(|cx| match answer.as_mut().poll(cx) {
                        Poll::Pending => sender
                            .poll_closed(cx)
                            .map(|()| Err("nobody waits for it".into())),
                        ready @ Poll::Ready(_) => ready,
                    }))
                }
                Err(error) => Err(thread_text(error).into()),
            };
            // The send fails if the caller has stopped waiting; then nobody needs the answer.
            let _ = sender.send(answer);
            // Does not wait for blocking tasks of the function.
            if let Ok(runtime) = runtime {
                runtime.shutdown_background();
            }
        };
        std::thread::Builder::new()
            .name("leasehold-login".to_owned())
            .spawn(body)
            .map_err(|error| thread_text(&error))?;
        receiver.await.unwrap_or_else(|_| Err("it panicked".into()))
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

/// If the server refused the password, adds the user's name to the text of the failure. `changes`
/// is true if later attempts may get other credentials. Then the failure also allows a retry.
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Fails if a blocked function gets one more thread with each attempt to connect, or if it is
    /// not called again after it has ended.
    #[tokio::test]
    async fn blocked_calls_are_bounded() {
        let (gate, calls) = (Arc::new(Mutex::new(())), Arc::new(AtomicUsize::new(0)));
        let (behind, counted) = (Arc::clone(&gate), Arc::clone(&calls));
        let provider = Provider::new(move || {
            counted.fetch_add(1, Ordering::SeqCst);
            drop(behind.lock());
            async { Ok(Credentials::new("app", "secret")) }
        });
        let closed = gate.lock();
        for _ in 0..100 {
            let attempt = provider.next(Duration::from_millis(1)).await;
            assert!(attempt.is_err(), "the function is blocked");
        }
        while calls.load(Ordering::SeqCst) < 64 {
            tokio::task::yield_now().await;
        }
        drop(closed);
        let answered = provider.next(Duration::from_secs(60)).await;
        answered.unwrap_or_else(|failure| panic!("{}", failure.error));
        assert_eq!(calls.load(Ordering::SeqCst), 65);
    }
}
