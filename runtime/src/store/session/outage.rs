//! The state of a server with sessions: reachable, or in an outage.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::error::LockError;

/// Last known state of a server: reachable or not.
#[derive(Default)]
pub(crate) struct Outage {
    state: Mutex<State>,
    /// Notified whenever the server is found to be unreachable.
    lost: Notify,
}

#[derive(Default)]
enum State {
    #[default]
    Up,
    /// A request has found no server, but no attempt to reach the server has failed yet.
    Lost,
    /// An attempt to reach the server has failed, with this error.
    Away(LockError),
}

impl Outage {
    /// True if the server has not answered since a request or an attempt failed to reach it.
    pub(crate) fn is_out(&self) -> bool {
        !matches!(*self.state(), State::Up)
    }

    /// Returns the error for calls that need the server now, once an attempt to reach it has
    /// failed.
    pub(crate) fn absence(&self) -> Option<LockError> {
        match &*self.state() {
            State::Away(error) => Some(error.clone()),
            State::Up | State::Lost => None,
        }
    }

    /// Records that a request has found no server. Returns true if the server was up before.
    pub(crate) fn lost(&self) -> bool {
        let mut state = self.state();
        let was_up = matches!(*state, State::Up);
        if was_up {
            *state = State::Lost;
        }
        self.lost.notify_one();
        was_up
    }

    /// Records that an attempt to reach the server has failed. Returns true for the first failed
    /// attempt of an outage.
    pub(crate) fn failed(&self, error: LockError) -> bool {
        let mut state = self.state();
        let begins = !matches!(*state, State::Away(_));
        *state = State::Away(error);
        drop(state);
        self.lost.notify_one();
        begins
    }

    /// Waits until the server is found to be unreachable.
    pub(super) async fn begins(&self) {
        self.lost.notified().await;
    }

    /// Records that the server has answered. Returns true if this ends an outage.
    pub(crate) fn back(&self) -> bool {
        !matches!(std::mem::take(&mut *self.state()), State::Up)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
