//! Runs a check on a separate thread.

use std::future::Future;

use tokio::sync::oneshot;

use super::backend::Checking;
use crate::base::io_text::thread_text;
use crate::check_report::CheckReport;
use crate::error::{LockError, StoreError};

/// Runs the check `future` on a separate thread with its own runtime. Therefore the check works
/// under every executor, even while the caller's workers are blocked. If the caller stops waiting,
/// the check still runs to its end.
pub(super) fn check<F>(future: F) -> Checking
where
    F: Future<Output = Result<CheckReport, LockError>> + Send + 'static,
{
    // Boxed because some checks are large futures, and the returned future would be equally large.
    let future = Box::pin(future);
    Box::pin(async move {
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
    })
}

fn no_thread(error: &std::io::Error) -> LockError {
    LockError::config(format!(
        "the check's thread could not start: {}",
        thread_text(error)
    ))
}
