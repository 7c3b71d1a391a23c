//! Runs a future apart from the caller's runtime.

use std::future::Future;

use tokio::sync::oneshot;

use crate::base::io_text::thread_text;
use crate::error::{LockError, StoreError};

/// Runs `future` on a thread and a runtime of its own. So the future runs under every executor,
/// also while the caller's workers are blocked. If the caller stops waiting, the future still runs
/// to its end.
pub(super) fn run<T, F>(future: F) -> impl Future<Output = Result<T, LockError>> + Send
where
    T: Send + 'static,
    F: Future<Output = Result<T, LockError>> + Send + 'static,
{
    // Some stores' checks are large, and each caller's future would be as large.
    run_boxed(Box::pin(future))
}

async fn run_boxed<T, F>(future: F) -> Result<T, LockError>
where
    T: Send + 'static,
    F: Future<Output = Result<T, LockError>> + Send + 'static,
{
    let (sender, receiver) = oneshot::channel();
    let body = move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let result = match runtime {
            Ok(runtime) => runtime.block_on(future),
            Err(error) => Err(no_thread(&error)),
        };
        // The send fails if the caller has stopped waiting; then the result is not needed.
        let _ = sender.send(result);
    };
    std::thread::Builder::new()
        .name("leasehold-check".to_owned())
        .spawn(body)
        .map_err(|error| no_thread(&error))?;
    receiver.await.unwrap_or_else(|_| {
        Err(LockError::Unavailable {
            source: StoreError::new("stopped", "the check ended without a result"),
        })
    })
}

fn no_thread(error: &std::io::Error) -> LockError {
    LockError::config(format!(
        "the check could not get a thread of its own: {}",
        thread_text(error)
    ))
}
