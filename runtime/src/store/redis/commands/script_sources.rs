//! Scripts by their source, for a server that forgets them as fast as they are loaded.
//!
//! A request calls its script by hash. The first `NOSCRIPT` loads the scripts again. If a request
//! behind that load gets `NOSCRIPT` as well, the next requests carry the source itself (`EVAL`).
//! That happens under a storm of `SCRIPT FLUSH`, or behind a proxy that spreads requests.

use std::time::Duration;

use redis::Value;
use tokio::time::Instant;

/// For how long requests carry the source after the server has forgotten scripts twice in a row.
const LASTS: Duration = Duration::from_secs(1);

/// What one connection knows of its server and the scripts. Requests have numbers, in the order in
/// which they are sent.
#[derive(Debug, Default)]
pub(crate) struct ScriptSources {
    /// The number of the last load, until the server has found a script behind it.
    load: Option<u64>,
    by_source_until: Option<Instant>,
    /// Whether the server does not permit `EVAL`.
    refused: bool,
}

impl ScriptSources {
    /// Whether requests that are sent now carry the source.
    pub(crate) fn by_source(&self, now: Instant) -> bool {
        self.by_source_until.is_some_and(|until| now < until)
    }

    /// The scripts are loaded by the request of this number.
    pub(crate) fn loading(&mut self, number: u64) {
        self.load = Some(number);
    }

    /// The server found the script that the request of this number called by its hash.
    pub(crate) fn found(&mut self, number: u64) {
        if self.load.is_some_and(|load| load < number) {
            self.load = None;
        }
    }

    /// The server did not find the script of the request of this number. Returns whether the
    /// scripts are to be loaded again.
    pub(crate) fn missed(&mut self, number: u64, now: Instant) -> bool {
        let again = self.load.is_some_and(|load| load < number);
        if again && !self.refused {
            self.by_source_until = Some(now + LASTS);
            return false;
        }
        // A miss of a request that was sent before the last load says nothing of that load.
        self.load.is_none_or(|load| load < number)
    }

    /// The server does not permit `EVAL`: scripts are called by their hash for good.
    pub(crate) fn refuse(&mut self) {
        self.refused = true;
        self.by_source_until = None;
    }
}

/// Whether the server refused the permission to send a source, and not a command of the script.
pub(crate) fn is_refused(answer: &Value) -> bool {
    matches!(answer, Value::ServerError(error)
        if error.code() == "NOPERM" && error.details().unwrap_or_default().contains("'eval'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails if one loss of the scripts counts as two: requests that were sent before the reload
    /// are answered after it began.
    #[test]
    fn what_was_sent_before_the_load_does_not_count() {
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
    fn a_second_loss_in_a_row_brings_the_source_for_a_while() {
        let (now, mut memory) = (Instant::now(), ScriptSources::default());
        assert!(memory.missed(1, now));
        memory.loading(2);
        assert!(!memory.missed(3, now), "nothing is loaded for it");
        assert!(memory.by_source(now) && !memory.by_source(now + LASTS));
        let later = now + LASTS;
        assert!(!memory.missed(9, later), "still the same storm");
        assert!(memory.by_source(later));
    }

    /// Fails if the client keeps sending `EVAL` for a user that may not, and so never works again.
    #[test]
    fn without_the_permission_the_scripts_are_loaded_again_and_again() {
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
