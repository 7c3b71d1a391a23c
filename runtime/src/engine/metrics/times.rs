//! Measures the time that the store takes to answer each request.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::base::clock::Instant;
use crate::base::reporter::meters::store::{Kind, StoreMeter};
use crate::store::{Op, OpId, Request};

/// Maximum number of requests whose time of sending is stored. The number is limited, because an
/// unanswered request keeps all later ones in the list.
const REMEMBERED: usize = 8_192;

/// Capacity, in requests, up to which the list keeps its memory. A longer list, as after an outage,
/// shrinks again.
const ROOM: usize = 256;

/// The unanswered requests to one pool's store, each with the time of its sending.
pub(in crate::engine) struct Times {
    meter: Arc<StoreMeter>,
    away: bool,
    /// The requests with the numbers `first`, `first + 1` and so on; none for an answered request.
    asked: VecDeque<Option<(Kind, Instant)>>,
    first: u64,
}

impl Times {
    /// Creates an empty list. `store` is the store's URL without its password.
    pub(in crate::engine) fn of(store: &str) -> Self {
        Self {
            meter: StoreMeter::of(store),
            away: false,
            asked: VecDeque::new(),
            first: 0,
        }
    }

    pub(in crate::engine) fn is_away(&mut self, away: bool) {
        self.away = away;
        self.meter.is_away(away);
    }

    /// Records the requests sent now. Their numbers are consecutive.
    pub(in crate::engine) fn sends(&mut self, requests: &[Request], now: Instant) {
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

    /// Records the answer to a request. If `sent` is false, the request was refused for lack of a
    /// connection, and its time is not measured.
    pub(in crate::engine) fn answered(&mut self, id: OpId, now: Instant, sent: bool) {
        let index = id.0.checked_sub(self.first);
        let index = index.and_then(|index| usize::try_from(index).ok());
        let asked = index.and_then(|index| self.asked.get_mut(index)?.take());
        if let Some((kind, at)) = asked.filter(|_| sent) {
            self.meter.answered(kind, now.since(at));
        }
        while let Some(None) = self.asked.front() {
            self.asked.pop_front();
            self.first += 1;
        }
        // The list grows while its first request has no answer, as in an outage. Afterwards its
        // memory is freed.
        let room = self.asked.capacity();
        if ROOM < room && self.asked.len() < room / 8 {
            self.asked.shrink_to(room / 4);
        }
    }
}

/// Removes a dropped pool from the meter's count of pools that cannot reach the store.
impl Drop for Times {
    fn drop(&mut self) {
        if self.away {
            self.meter.is_away(false);
        }
    }
}

/// Returns the kind under which the metrics report the time of a request.
fn kind(op: &Op) -> Kind {
    match op {
        Op::Take(_) | Op::TakeAll { .. } | Op::Adopt { .. } => Kind::Acquire,
        Op::Keep { .. } => Kind::Renew,
        Op::Give(_) | Op::Forget { .. } => Kind::Release,
        Op::Leave { .. } => Kind::Leave,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Requests pile up behind one without an answer, as in an outage. Fails if the memory of their
    /// list is not freed after the outage.
    #[test]
    fn memory_used_in_an_outage_is_returned() {
        let mut times = Times::of("memory://room");
        let request = |number| Request {
            id: OpId(number),
            op: Op::Leave { key: "k".into() },
            patience: Duration::ZERO,
        };
        let now = Instant::ZERO;
        for number in 0..5_000 {
            times.sends(&[request(number)], now);
        }
        for number in 1..5_000 {
            times.answered(OpId(number), now, true);
        }
        assert!(5_000 <= times.asked.capacity(), "the first is open");
        times.answered(OpId(0), now, false);
        for number in 5_000..5_100 {
            times.sends(&[request(number)], now);
            times.answered(OpId(number), now, true);
        }
        assert!(times.asked.is_empty());
        assert!(times.asked.capacity() <= 2 * ROOM);
    }
}
