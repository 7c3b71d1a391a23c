//! The state of a server with sessions: reachable, or in an outage.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

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
    /// Requests have found no server, the last one at this time. No attempt to reach the server has
    /// failed yet.
    Lost(Instant),
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
            State::Up | State::Lost(_) => None,
        }
    }

    /// True if an answer to an attempt ends the outage. A server that answers attempts may still be
    /// too slow for requests. So unless an attempt has failed, the answer counts only if no request
    /// was lost for the time `quiet`.
    pub(super) fn may_end(&self, quiet: Duration) -> bool {
        match &*self.state() {
            State::Lost(last) => quiet <= last.elapsed(),
            State::Up | State::Away(_) => true,
        }
    }

    /// Records that a request has found no server. Returns true if the server was up before.
    pub(crate) fn lost(&self) -> bool {
        let mut state = self.state();
        let was_up = matches!(*state, State::Up);
        if !matches!(*state, State::Away(_)) {
            *state = State::Lost(Instant::now());
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

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: Duration = Duration::from_secs(5);

    #[tokio::test(start_paused = true)]
    async fn an_attempt_ends_a_quiet_outage() {
        let outage = Outage::default();
        assert!(outage.lost() && !outage.may_end(QUIET));
        tokio::time::advance(QUIET / 2).await;
        assert!(!outage.lost(), "it was lost before");
        tokio::time::advance(QUIET / 2).await;
        assert!(!outage.may_end(QUIET), "another request was lost");
        tokio::time::advance(QUIET / 2).await;
        assert!(outage.may_end(QUIET) && outage.is_out());
        assert!(outage.back() && !outage.is_out());
    }

    #[tokio::test(start_paused = true)]
    async fn an_attempt_ends_an_outage_in_which_another_has_failed() {
        let outage = Outage::default();
        assert!(outage.lost() && outage.failed(LockError::unavailable("io", "away")));
        assert!(!outage.lost() && outage.may_end(QUIET));
        assert!(outage.absence().is_some(), "it is still away");
    }
}
