//! Sends scripts by their source, if a server forgets them as fast as they are loaded.
//!
//! A request calls its script by hash. The first `NOSCRIPT` loads the scripts again. If a request
//! after that load gets `NOSCRIPT` as well, the next requests carry the source itself (`EVAL`).
//! That happens under a storm of `SCRIPT FLUSH`, or behind a proxy that spreads requests.

use std::time::Duration;

use redis::Value;
use tokio::time::Instant;

/// Requests carry the source for this long after the server has forgotten scripts twice in a row.
const LASTS: Duration = Duration::from_secs(1);

/// State of the scripts on the server of one connection. Requests have numbers, in the order of
/// sending.
#[derive(Debug, Default)]
pub(crate) struct ScriptSources {
    /// The number of the last load, until the server has found a script after it.
    load: Option<u64>,
    by_source_until: Option<Instant>,
    /// True if the server does not permit `EVAL`.
    refused: bool,
}

impl ScriptSources {
    /// True if requests sent at `now` must carry the source.
    pub(crate) fn by_source(&self, now: Instant) -> bool {
        self.by_source_until.is_some_and(|until| now < until)
    }

    /// Records that the request of this number loads the scripts.
    pub(crate) fn loading(&mut self, number: u64) {
        self.load = Some(number);
    }

    /// Records that the server found the script that this request called by its hash.
    pub(crate) fn found(&mut self, number: u64) {
        if self.load.is_some_and(|load| load < number) {
            self.load = None;
        }
    }

    /// Records that the server did not find the script of this request. Returns true if the scripts
    /// must be loaded again.
    pub(crate) fn missed(&mut self, number: u64, now: Instant) -> bool {
        let again = self.load.is_some_and(|load| load < number);
        if again && !self.refused {
            self.by_source_until = Some(now + LASTS);
            return false;
        }
        // A miss of a request from before the last load proves nothing about that load.
        self.load.is_none_or(|load| load < number)
    }

    /// Records that the server does not permit `EVAL`. From now on all scripts are called by their
    /// hash.
    pub(crate) fn refuse(&mut self) {
        self.refused = true;
        self.by_source_until = None;
    }
}

/// True if the user may not send a source. A refused command of the script does not count.
pub(crate) fn is_refused(answer: &Value) -> bool {
    matches!(answer, Value::ServerError(error)
        if error.code() == "NOPERM" && error.details().unwrap_or_default().contains("'eval'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails if one loss of the scripts counts as two: requests from before the reload are answered
    /// after it began.
    #[test]
    fn requests_sent_before_a_reload_do_not_count() {
        let (now, mut memory) = (Instant::now(), ScriptSources::default());
        assert!(memory.missed(1, now), "they are loaded");
        memory.loading(5);
        assert!(!memory.missed(2, now) && !memory.missed(4, now));
        assert!(!memory.by_source(now));
        memory.found(6);
        assert!(memory.missed(7, now), "a new loss");
        assert!(!memory.by_source(now));
    }

    #[test]
    fn two_losses_in_a_row_switch_to_sending_the_source() {
        let (now, mut memory) = (Instant::now(), ScriptSources::default());
        assert!(memory.missed(1, now));
        memory.loading(2);
        assert!(!memory.missed(3, now), "nothing is loaded for it");
        assert!(memory.by_source(now) && !memory.by_source(now + LASTS));
        let later = now + LASTS;
        assert!(!memory.missed(9, later), "still the same storm");
        assert!(memory.by_source(later));
    }

    /// Fails if the client keeps sending `EVAL` for a user without that permission, and so never
    /// works again.
    #[test]
    fn a_user_without_eval_keeps_loading_the_scripts() {
        let (now, mut memory) = (Instant::now(), ScriptSources::default());
        assert!(memory.missed(1, now));
        memory.loading(2);
        assert!(!memory.missed(3, now));
        memory.refuse();
        assert!(!memory.by_source(now));
        assert!(memory.missed(4, now));
        memory.loading(5);
        assert!(memory.missed(6, now) && !memory.by_source(now));
    }
}
