//! The store as operators see it: whether it can be reached, and how long its answers take.

#[cfg(feature = "metrics")]
use std::collections::VecDeque;
#[cfg(feature = "metrics")]
use std::sync::Arc;

use crate::base::clock::Instant;
use crate::base::codes;
use crate::base::reporter;
#[cfg(feature = "metrics")]
use crate::base::reporter::meters::store::{Kind, StoreMeter};
#[cfg(feature = "metrics")]
use crate::store::Op;
use crate::store::{OpId, Request};

/// For so many requests the engine remembers when they were sent. A store may leave a request
/// without an answer.
#[cfg(feature = "metrics")]
const REMEMBERED: usize = 8_192;

/// For so many there is always room.
#[cfg(feature = "metrics")]
const ROOM: usize = 256;

/// The standing of one pool's store.
pub(super) struct Standing {
    /// The store's URL without its password.
    store: String,
    away: bool,
    #[cfg(feature = "metrics")]
    meter: Arc<StoreMeter>,
    /// The requests from the number `first` on. None for one that is answered.
    #[cfg(feature = "metrics")]
    asked: VecDeque<Option<(Kind, Instant)>>,
    #[cfg(feature = "metrics")]
    first: u64,
}

impl Standing {
    pub(super) fn new(store: String) -> Self {
        Self {
            #[cfg(feature = "metrics")]
            meter: StoreMeter::of(&store),
            store,
            away: false,
            #[cfg(feature = "metrics")]
            asked: VecDeque::new(),
            #[cfg(feature = "metrics")]
            first: 0,
        }
    }

    /// Whether the store can be reached now. Logs a change.
    pub(super) fn is_away(&mut self, away: bool) {
        if away == self.away {
            return;
        }
        self.away = away;
        #[cfg(feature = "metrics")]
        self.meter.is_away(away);
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

    /// These requests leave now. Their numbers follow each other.
    #[cfg(feature = "metrics")]
    pub(super) fn sends(&mut self, requests: &[Request], now: Instant) {
        for request in requests {
            if self.asked.is_empty() {
                self.first = request.id.0;
            }
            self.asked.push_back(Some((kind(&request.op), now)));
        }
        while REMEMBERED < self.asked.len() {
            self.asked.pop_front();
            self.first += 1;
        }
    }

    /// The store has answered a request.
    #[cfg(feature = "metrics")]
    pub(super) fn answered(&mut self, id: OpId, now: Instant) {
        let index = id.0.checked_sub(self.first);
        let index = index.and_then(|index| usize::try_from(index).ok());
        let asked = index.and_then(|index| self.asked.get_mut(index)?.take());
        if let Some((kind, sent)) = asked {
            self.meter.answered(kind, now.since(sent));
        }
        while let Some(None) = self.asked.front() {
            self.asked.pop_front();
            self.first += 1;
        }
        // A request that waits through an outage keeps the line long. The room comes back after it.
        let room = self.asked.capacity();
        if ROOM < room && self.asked.len() < room / 8 {
            self.asked.shrink_to(room / 4);
        }
    }

    #[cfg(not(feature = "metrics"))]
    #[expect(clippy::unused_self, reason = "nothing is timed")]
    pub(super) fn sends(&mut self, _: &[Request], _: Instant) {}

    #[cfg(not(feature = "metrics"))]
    #[expect(clippy::unused_self, reason = "nothing is timed")]
    pub(super) fn answered(&mut self, _: OpId, _: Instant) {}
}

/// A pool that is gone says nothing of its store.
#[cfg(feature = "metrics")]
impl Drop for Standing {
    fn drop(&mut self) {
        if self.away {
            self.meter.is_away(false);
        }
    }
}

/// The meter that times a request.
#[cfg(feature = "metrics")]
fn kind(op: &Op) -> Kind {
    match op {
        Op::Acquire { .. }
        | Op::AcquireAll { .. }
        | Op::Join { .. }
        | Op::Recall { .. }
        | Op::Adopt { .. } => Kind::Acquire,
        Op::Renew(_) | Op::Stay(_) => Kind::Renew,
        Op::Release { .. } | Op::Part { .. } | Op::Record { .. } | Op::Forget { .. } => {
            Kind::Release
        }
        Op::Leave { .. } => Kind::Leave,
    }
}

#[cfg(all(test, feature = "metrics"))]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Fails if the room for the requests of an outage stays for good.
    #[test]
    fn room_comes_back() {
        let mut standing = Standing::new("memory://room".to_owned());
        let request = |number| Request {
            id: OpId(number),
            op: Op::Leave { key: "k".into() },
            patience: Duration::ZERO,
        };
        let now = Instant::ZERO;
        for number in 0..5_000 {
            standing.sends(&[request(number)], now);
        }
        for number in 1..5_000 {
            standing.answered(OpId(number), now);
        }
        assert!(5_000 <= standing.asked.capacity(), "the first is open");
        standing.answered(OpId(0), now);
        for number in 5_000..5_100 {
            standing.sends(&[request(number)], now);
            standing.answered(OpId(number), now);
        }
        assert!(standing.asked.is_empty());
        assert!(standing.asked.capacity() <= 2 * ROOM);
    }
}
