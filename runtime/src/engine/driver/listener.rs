//! A listener: a task on the runtime of a caller that hears of answers.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};

use super::lanes::ListenerId;
use super::shared::Shared;
use super::state::Heard;
use crate::store::{Listen, Socket};

/// Hears of what comes on a socket, on the runtime that polls this.
pub(super) fn listen(
    shared: &Arc<Shared>,
    id: ListenerId,
    socket: &Arc<dyn Socket>,
) -> impl Future<Output = ()> + Send + use<> {
    // Made before the task is first polled, which may never be.
    let listener = Listener {
        shared: Arc::downgrade(shared),
        id,
    };
    // The task may not run for long, or ever: it keeps no connection open meanwhile.
    let socket = Arc::downgrade(socket);
    async move {
        // There is no other way to ask whether the runtime has an I/O driver.
        let Some(socket) = socket.upgrade() else {
            return;
        };
        let listening = catch_unwind(AssertUnwindSafe(|| socket.listen()));
        drop(socket);
        let Ok(Ok(mut ear)) = listening else {
            return listener.unable();
        };
        while listener.hears(&mut *ear).await {}
    }
}

struct Listener {
    shared: Weak<Shared>,
    id: ListenerId,
}

impl Listener {
    /// Waits for what comes, and takes it in; whether to go on.
    async fn hears(&self, ear: &mut dyn Listen) -> bool {
        let mut heard = Heard::InVain;
        let mut read = || heard = self.read();
        let open = poll_fn(|cx| ear.poll_heard(cx, &mut read)).await;
        match heard {
            _ if open.is_err() => false,
            Heard::InVain => false,
            Heard::One => true,
            Heard::Several => {
                tokio::task::yield_now().await;
                if let Some(shared) = self.shared.upgrade() {
                    shared.gathered();
                }
                true
            }
        }
    }

    fn read(&self) -> Heard {
        let shared = self.shared.upgrade();
        shared.map_or(Heard::InVain, |shared| shared.hear(self.id))
    }

    fn unable(&self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.unable();
        }
    }
}

impl Drop for Listener {
    /// Its runtime ends, or another listens.
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.listener_ended(self.id);
        }
    }
}
