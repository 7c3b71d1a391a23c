//! Starting an engine, on a dedicated thread or in the current runtime.

use tokio::sync::oneshot;

use super::handle::Engine;
use super::keeper::Keeper;
use crate::base::clock::Clock;
use crate::base::io_text::thread_text;
use crate::base::reporter;
use crate::engine::core::signal::Limits;
use crate::error::LockError;
use crate::store::Connecting;

/// The place where an engine runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// A dedicated thread with its own runtime. On it, the keeper renews leases even while the
    /// program's worker threads are blocked. In a measurement, its renewals were 0.1 ms late, but
    /// 2.4 s late on a blocked runtime. The keeper also releases locks after the end of the
    /// program's runtime.
    Thread,
    /// A task in the runtime that connects the pool. For tests with paused time.
    CurrentRuntime,
}

/// Connects the store in the runtime of the engine, and starts the engine. `name` is the store's
/// URL without its password.
pub(crate) async fn start(
    place: Place,
    name: String,
    limits: Limits,
    clock: Clock,
    connecting: Connecting,
) -> Result<Engine, LockError> {
    match place {
        Place::CurrentRuntime => {
            let (keeper, engine) =
                Keeper::new(connecting.await?, name, limits, clock, false, false);
            tokio::spawn(keeper.run());
            Ok(engine)
        }
        Place::Thread => start_thread(name, limits, clock, connecting).await,
    }
}

async fn start_thread(
    name: String,
    limits: Limits,
    clock: Clock,
    connecting: Connecting,
) -> Result<Engine, LockError> {
    let (started, result) = oneshot::channel();
    let body = move || {
        reporter::begin();
        // The runtime is created on the new thread, and not before. Otherwise, if the thread could
        // not start, the runtime would be dropped in async code, which panics.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = match runtime {
            Ok(runtime) => runtime,
            Err(error) => {
                // `send` fails only if the caller has stopped waiting.
                let _ = started.send(Err(no_thread(&error)));
                return;
            }
        };
        runtime.block_on(async move {
            let store = match connecting.await {
                Ok(store) => store,
                Err(error) => {
                    let _ = started.send(Err(error));
                    return;
                }
            };
            // Listeners need unwinding, because `listen` panics in a runtime without an I/O driver,
            // and the listener must catch that panic.
            let listeners = cfg!(panic = "unwind");
            let (keeper, engine) = Keeper::new(store, name, limits, clock, listeners, true);
            // If the caller has stopped waiting, the engine's handle is dropped here, and the
            // keeper ends at once.
            let _ = started.send(Ok(engine));
            keeper.run().await;
        });
    };
    std::thread::Builder::new()
        .name("leasehold".to_owned())
        .spawn(body)
        .map_err(|error| no_thread(&error))?;
    result.await.unwrap_or_else(|_| {
        Err(LockError::config(
            "the engine's thread ended while it connected",
        ))
    })
}

fn no_thread(error: &std::io::Error) -> LockError {
    LockError::config(format!(
        "the engine's thread could not start: {}",
        thread_text(error)
    ))
}
