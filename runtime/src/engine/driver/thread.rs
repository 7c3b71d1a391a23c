//! The place where an engine runs.

use std::pin::pin;
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};

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
    /// A dedicated thread with its own runtime. The watchdog renews while the program's workers are
    /// blocked: measured 0.1 ms late, against 2.4 s on a blocked runtime. The keeper still releases
    /// locks when the program's runtime is gone.
    Thread,
    /// A task of the runtime that connects the pool. For tests with paused time.
    CurrentRuntime,
}

/// Connects the store where the engine will run, and starts the engine. `name` is the store's URL
/// without its password.
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
        Place::Thread => {
            let (started, result) = oneshot::channel();
            // The caller may have stopped waiting.
            let started = move |engine| drop(started.send(engine));
            start_thread(name, limits, clock, connecting, started)?;
            result.await.unwrap_or_else(|_| Err(ended()))
        }
    }
}

/// Like [`start`], but for a store that is connected at once. Blocks until the engine's thread has
/// begun.
pub(crate) fn start_at_once(
    place: Place,
    name: String,
    limits: Limits,
    clock: Clock,
    connecting: Connecting,
) -> Result<Engine, LockError> {
    match place {
        Place::CurrentRuntime => {
            let polled = pin!(connecting).poll(&mut Context::from_waker(Waker::noop()));
            let Poll::Ready(store) = polled else {
                return Err(ended());
            };
            let (keeper, engine) = Keeper::new(store?, name, limits, clock, false, false);
            tokio::spawn(keeper.run());
            Ok(engine)
        }
        Place::Thread => {
            let (started, result) = mpsc::sync_channel(1);
            // The receiver waits below.
            let started = move |engine| drop(started.send(engine));
            start_thread(name, limits, clock, connecting, started)?;
            result.recv().unwrap_or_else(|_| Err(ended()))
        }
    }
}

fn start_thread(
    name: String,
    limits: Limits,
    clock: Clock,
    connecting: Connecting,
    started: impl FnOnce(Result<Engine, LockError>) + Send + 'static,
) -> Result<(), LockError> {
    let body = move || {
        reporter::begin();
        // The runtime is made on this thread. Outside, an error would drop the runtime in async
        // code, which panics.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = match runtime {
            Ok(runtime) => runtime,
            Err(error) => {
                return started(Err(no_thread(&error)));
            }
        };
        runtime.block_on(async move {
            let store = match connecting.await {
                Ok(store) => store,
                Err(error) => return started(Err(error)),
            };
            // A runtime without an I/O driver reports that by a panic, which only unwinding can
            // catch.
            let listeners = cfg!(panic = "unwind");
            let (keeper, engine) = Keeper::new(store, name, limits, clock, listeners, true);
            // If the caller has stopped waiting, the engine is dropped here, and the keeper ends at
            // once.
            started(Ok(engine));
            keeper.run().await;
        });
    };
    std::thread::Builder::new()
        .name("leasehold".to_owned())
        .spawn(body)
        .map_err(|error| no_thread(&error))?;
    Ok(())
}

fn ended() -> LockError {
    LockError::config("the engine's thread ended while it connected")
}

fn no_thread(error: &std::io::Error) -> LockError {
    LockError::config(format!(
        "the engine could not get a thread of its own: {}",
        thread_text(error)
    ))
}
