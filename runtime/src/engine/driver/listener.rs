//! A listener: a task on a caller's runtime that listens for answers.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};

use super::lanes::ListenerId;
use super::shared::Shared;
use super::state::Received;
use crate::store::{Listen, Socket};

/// Listens on a socket, on the runtime that polls the future.
pub(super) fn listen(
    shared: &Arc<Shared>,
    id: ListenerId,
    socket: &Arc<dyn Socket>,
) -> impl Future<Output = ()> + Send + use<> {
    // Created here, because the runtime may drop the task before the first poll. The engine is
    // notified of that, too.
    let listener = Listener {
        shared: Arc::downgrade(shared),
        id,
    };
    // The runtime may poll the task late, or never. Meanwhile the task keeps no connection open.
    let socket = Arc::downgrade(socket);
    async move {
        let Some(socket) = socket.upgrade() else {
            return;
        };
        // `listen` panics if the runtime has no I/O driver, and there is no other way to ask.
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
    /// Waits until something comes, and reads it. Returns `false` if the listener must end.
    async fn receives(&self, readiness: &mut dyn Listen) -> bool {
        let mut received = Received::InVain;
        let mut read = || received = self.read();
        let open = poll_fn(|cx| readiness.poll_received(cx, &mut read)).await;
        match received {
            _ if open.is_err() => false,
            Received::InVain => false,
            Received::One => true,
            Received::Several => {
                // The woken callers run first.
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
