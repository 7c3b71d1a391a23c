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
    // Created before the first poll, because the runtime may drop the task before that. The `Drop`
    // of this value then still notifies the engine.
    let listener = Listener {
        shared: Arc::downgrade(shared),
        id,
    };
    // Weak, because a task that the runtime polls late or never must not keep its connection open.
    let socket = Arc::downgrade(socket);
    async move {
        let Some(socket) = socket.upgrade() else {
            return;
        };
        // `listen` panics if the runtime has no I/O driver. There is no other way to find that out.
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
                // Lets the woken callers run first. Their requests are then sent together.
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
    /// Called when the runtime ends, the socket is gone, or this listener was replaced.
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.listener_ended(self.id);
        }
    }
}
