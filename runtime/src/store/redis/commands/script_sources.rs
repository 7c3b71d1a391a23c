//! Sends the source of scripts to a server that keeps losing its scripts.
//!
//! A request calls its script by the script's hash. If the server does not have the script, it
//! answers `NOSCRIPT`, and the client loads all scripts again. If a request sent after that load
//! also gets `NOSCRIPT`, further requests carry the source of their script (`EVAL`). Scripts are
//! lost repeatedly if other clients run `SCRIPT FLUSH` all the time, or if a proxy spreads the
//! requests over several servers.

use std::time::Duration;

use redis::Value;
use tokio::time::Instant;

/// Time for which requests carry the source, after the server has lost its scripts twice in a row.
const LASTS: Duration = Duration::from_secs(1);

/// State of the scripts on the server of one connection. Requests are numbered in the order of
/// sending.
#[derive(Debug, Default)]
pub(crate) struct ScriptSources {
    /// Number of the request that last loaded the scripts. `None` after a later request has found
    /// its script on the server.
    load: Option<u64>,
    by_source_until: Option<Instant>,
    /// True if the user may not send `EVAL`.
    refused: bool,
}

impl ScriptSources {
    /// True if requests sent at `now` must carry the source.
    pub(crate) fn by_source(&self, now: Instant) -> bool {
        self.by_source_until.is_some_and(|until| now < until)
    }

    /// Records that the request with this number loads the scripts.
    pub(crate) fn loading(&mut self, number: u64) {
        self.load = Some(number);
    }

    /// Records that the server found the script of this request.
    pub(crate) fn found(&mut self, number: u64) {
        if self.load.is_some_and(|load| load < number) {
            self.load = None;
        }
    }

    /// Records that the server did not find the script of this request. Returns true if the scripts
    /// must be loaded again. If they were lost again after a load, further requests carry the
    /// source instead.
    pub(crate) fn missed(&mut self, number: u64, now: Instant) -> bool {
        let again = self.load.is_some_and(|load| load < number);
        if again && !self.refused {
            self.by_source_until = Some(now + LASTS);
            return false;
        }
        // A request sent before the last load needs no further load.
        self.load.is_none_or(|load| load < number)
    }

    /// Records that the user may not send `EVAL`. After this, all scripts are called by their hash.
    pub(crate) fn refuse(&mut self) {
        self.refused = true;
        self.by_source_until = None;
    }
}

/// True if the answer shows that the user may not send `EVAL`. False if the server refused only a
/// command inside the script.
pub(crate) fn is_refused(answer: &Value) -> bool {
    matches!(answer, Value::ServerError(error)
        if error.code() == "NOPERM" && error.details().unwrap_or_default().contains("'eval'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The server loses its scripts once. Several requests sent before the reload are refused only
    /// after it has begun. Fails if these refusals count as a second loss.
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

    /// The user may not send `EVAL`. Fails if the client sends `EVAL` again after the refusal: all
    /// further requests would fail.
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
