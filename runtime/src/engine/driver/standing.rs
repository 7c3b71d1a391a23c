//! The state of the store in logs and metrics: its reachability, and the times of its answers.

use crate::base::codes;
use crate::base::reporter;
use crate::engine::metrics::Times;

/// The reachability and answer times of one pool's store.
pub(super) struct Standing {
    /// The store's URL without its password.
    store: String,
    away: bool,
    pub(super) times: Times,
}

impl Standing {
    pub(super) fn new(store: String) -> Self {
        Self {
            times: Times::of(&store),
            store,
            away: false,
        }
    }

    /// Records the reachability of the store, and logs each change. `away` is true if the store
    /// cannot be reached.
    pub(super) fn is_away(&mut self, away: bool) {
        if away == self.away {
            return;
        }
        self.away = away;
        self.times.is_away(away);
        let store = self.store.clone();
        if away {
            reporter::log(move || {
                tracing::warn!(
                    code = codes::STORE_AWAY,
                    store,
                    "the lock store cannot be reached"
                );
            });
        } else {
            reporter::log(move || {
                tracing::info!(
                    code = codes::STORE_BACK,
                    store,
                    "the lock store can be reached again"
                );
            });
        }
    }
}
