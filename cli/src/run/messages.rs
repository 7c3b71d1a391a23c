//! Messages of `leasehold run` itself. They are written to standard error, as text or as lines of
//! JSON.

use std::ffi::OsStr;
use std::io;
use std::time::Duration;

use leasehold::{Fence, LockGuard};
use serde_json::{Value, json};

use super::schedule::Reason;
use crate::args::Run;
use crate::output;

/// Writer of events to standard error, to which the command also writes.
#[derive(Debug)]
pub(crate) struct Messages {
    pub(crate) json: bool,
}

impl Messages {
    pub(crate) fn new(json: bool) -> Self {
        Self { json }
    }

    /// Reports the held lock, but only as JSON. A text would only disturb the output of the
    /// command.
    pub(crate) fn acquired(&self, guard: &LockGuard, waited: Duration) {
        self.event(&json!({
            "event": "acquired",
            "key": guard.key(),
            "fence": guard.fence().map(Fence::get),
            "waited_ms": u64::try_from(waited.as_millis()).unwrap_or(u64::MAX),
        }));
    }

    pub(crate) fn not_started(&self, program: &OsStr, error: &io::Error) {
        let program = program.to_string_lossy();
        self.print(
            &format!("`{program}` cannot be started: {error}"),
            &json!({ "event": "not_started", "program": program, "text": error.to_string() }),
        );
    }

    pub(crate) fn too_late(&self) {
        let text = "the command did not run: the lease was about to end before it could start";
        self.print(text, &json!({ "event": "too_late", "text": text }));
    }

    pub(crate) fn stopping(&self, options: &Run, reason: Reason) {
        let key = &options.key;
        let (name, text) = match reason {
            Reason::Lost => (
                "lost",
                format!("the lease on `{key}` is lost; stopping the command before the lease ends"),
            ),
            Reason::TakenAway => (
                "taken_away",
                format!("the lock `{key}` was taken away by an operator; stopping the command"),
            ),
            Reason::MaxHold => {
                let limit = humantime::format_duration(options.max_hold.unwrap_or_default());
                (
                    "max_hold",
                    format!("--max-hold of {limit} is over; stopping the command"),
                )
            }
            Reason::Orphaned => return,
        };
        self.print(
            &text,
            &json!({ "event": "stopping", "reason": name, "key": key }),
        );
    }

    /// Reports that the lock was gone at its release.
    pub(crate) fn gone(&self, key: &str) {
        let text = format!(
            "the lock `{key}` was gone when the command ended; another process may have run at the \
             same time"
        );
        self.print(&text, &json!({ "event": "gone", "key": key }));
    }

    pub(crate) fn left(&self, count: u64) {
        let are = if count == 1 {
            "process that it started still runs; the lock is held until it ends"
        } else {
            "processes that it started still run; the lock is held until they end"
        };
        let text = format!("the command has ended, but {count} {are}");
        self.print(&text, &json!({ "event": "left", "processes": count }));
    }

    pub(crate) fn refused(&self, count: u64) {
        let text = format!(
            "{count} of the command's processes run as another user and cannot be killed; run \
             `leasehold` as that user, inside `sudo` or `su`, not outside"
        );
        self.print(&text, &json!({ "event": "refused", "processes": count }));
    }

    /// Reports that the guardian is gone.
    pub(crate) fn unguarded(&self) {
        let text = "the process that guards the command was killed; killing the command as well";
        self.print(text, &json!({ "event": "unguarded" }));
    }

    pub(crate) fn failed(&self, error: &io::Error) {
        self.print(
            &error.to_string(),
            &json!({ "event": "failed", "text": error.to_string() }),
        );
    }

    /// Reports the end of the run, only as JSON.
    pub(crate) fn ended(&self, code: u8, lost: bool) {
        self.event(&json!({ "event": "ended", "exit_code": code, "lost": lost }));
    }

    fn print(&self, text: &str, event: &Value) {
        if self.json {
            self.event(event);
        } else {
            output::note(&format_args!("leasehold: {text}"));
        }
    }

    fn event(&self, event: &Value) {
        if self.json {
            output::note(event);
        }
    }
}
