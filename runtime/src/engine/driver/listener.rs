//! A listener: a task on a caller's runtime that waits for answers on a socket.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};

use super::lanes::ListenerId;
use super::shared::Shared;
use super::state::Received;
use crate::store::{Listen, Socket};

/// Waits for answers on a socket, in the runtime that polls the returned future.
pub(super) fn listen(
    shared: &Arc<Shared>,
    id: ListenerId,
    socket: &Arc<dyn Socket>,
) -> impl Future<Output = ()> + Send + use<> {
    // Created before the first poll, because the runtime may drop the task unpolled. The `Drop` of
    // this value then notifies the engine.
    let listener = Listener {
        shared: Arc::downgrade(shared),
        id,
    };
    // Weak, so that the connection can close even if the runtime polls this task late or never.
    let socket = Arc::downgrade(socket);
    async move {
        let Some(socket) = socket.upgrade() else {
            return;
        };
        // `listen` panics if the runtime has no I/O driver. Tokio offers no other way to detect
        // this.
        let listening = catch_unwind(AssertUnwindSafe(|| socket.listen()));
        drop(socket);
        let Ok(Ok(mut readiness)) = listening else {
            return listener.unable();
        };
        while listener.receives(&mut *readiness).await {}
    }
}

struct Listener {
    shared: Weak<Shared>,
    id: ListenerId,
}

impl Listener {
    /// Waits for input, and reads it. Returns `false` if the listener must end.
    async fn receives(&self, readiness: &mut dyn Listen) -> bool {
        let mut received = Received::InVain;
        let mut read = || received = self.read();
        let open = poll_fn(|cx| readiness.poll_received(cx, &mut read)).await;
        match received {
            _ if open.is_err() => false,
            Received::InVain => false,
            Received::One => true,
            Received::Several => {
                // Lets the woken callers run first. `gathered` then sends their requests together.
                tokio::task::yield_now().await;
                if let Some(shared) = self.shared.upgrade() {
                    shared.gathered();
                }
                true
            }
        }
    }

    fn read(&self) -> Received {
        let shared = self.shared.upgrade();
        shared.map_or(Received::InVain, |shared| shared.receive(self.id))
    }

    fn unable(&self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.unable();
        }
    }
}

impl Drop for Listener {
    /// Notifies the engine that this task has ended. Its runtime has ended or could not start the
    /// listener, the socket is gone, or the engine has removed the listener.
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.listener_ended(self.id);
        }
    }
}
