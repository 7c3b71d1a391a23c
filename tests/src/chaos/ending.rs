//! The checks at the end of a run: all workers end on request, and no key stays locked.

use std::time::Duration;

use leasehold::__test::now;

use super::crew::{Crew, Hand};
use super::sheet::Sheet;
use super::span::nanos;
use crate::oracle::Note;
use crate::redis_probe::RedisProbe;
use crate::wait;

/// Ends all workers. Each must end successfully.
pub(super) fn end_all(sheet: &Sheet, mut hands: Vec<Hand>) {
    for hand in &mut hands {
        hand.ask_to_end();
    }
    for hand in &mut hands {
        sheet.check(hand.finish(), || {
            "a worker did not end by itself, or badly".to_owned()
        });
    }
}

/// Checks that all keys become free within a ttl and 200 ms from now.
pub(super) fn all_free(crew: &Crew, probe: &RedisProbe, ttl: Duration) {
    free_after(crew, ttl, || {
        let mut keys = probe.keys("lock:*");
        keys.retain(|key| !key.starts_with("lock:%"));
        keys.pop()
    });
}

/// Waits until no key is locked, for at most a ttl and 200 ms. `left` returns a locked key, if any.
/// Writes the result to the history.
pub(super) fn free_after(crew: &Crew, ttl: Duration, left: impl Fn() -> Option<String>) {
    let due = now();
    let within = ttl + Duration::from_millis(200);
    let free = wait::try_until(within, || left().is_none());
    let key = left().unwrap_or_else(|| "all".to_owned());
    let at = free.map_or_else(|| now() + nanos(within), |_| now());
    crew.note(&Note::Free {
        key,
        due,
        at,
        within: nanos(within),
    });
}
