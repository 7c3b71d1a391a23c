//! Failures of a command: a text for people, and the exit code.

use std::io;

use leasehold::LockError;
use serde_json::{Value, json};

use crate::exit;
use crate::output;

/// Text in each library error that reports a refused thread or runtime.
const NO_THREAD: &str = " could not start: ";

/// The failure of a command.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    pub(crate) text: String,
    /// Milliseconds after which a retry makes sense.
    retry_after: Option<u64>,
}

impl Failure {
    /// Creates a failure for an invalid command line, or for a setting that is not supported.
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self::new(exit::USAGE, text)
    }

    pub(crate) fn new(code: u8, text: impl Into<String>) -> Self {
        Self {
            code,
            text: text.into(),
            retry_after: None,
        }
    }

    /// Reports the failure on standard error.
    pub(crate) fn print(&self, json: bool) {
        if json {
            output::note(&self.to_json());
        } else {
            output::note(&format_args!("leasehold: {}", self.text));
        }
    }

    fn to_json(&self) -> Value {
        let mut object = json!({ "event": "error", "exit_code": self.code, "text": self.text });
        if let Some(millis) = self.retry_after {
            object["retry_after_ms"] = json!(millis);
        }
        object
    }
}

impl From<LockError> for Failure {
    fn from(error: LockError) -> Self {
        let retry_after = error.retry_after();
        let retry_after =
            retry_after.map(|after| u64::try_from(after.as_millis()).unwrap_or(u64::MAX));
        let (code, text) = if error.is_contention() {
            // The error names the attribute's option `wait`, which is `--wait` on the command line.
            let text = error.to_string().replace("`wait`", "`--wait`");
            (exit::HELD, text)
        } else if error.is_unavailable() {
            (exit::UNAVAILABLE, error.to_string())
        } else if error.is_lost() {
            (exit::LOST, error.to_string())
        } else if lacks_thread(&error) {
            (exit::SYSTEM, error.to_string())
        } else {
            (exit::USAGE, error.to_string())
        };
        Self {
            retry_after,
            ..Self::new(code, text)
        }
    }
}

/// True if the system has refused a thread. The library reports this like an invalid setting.
fn lacks_thread(error: &LockError) -> bool {
    matches!(error, LockError::Config { reason } if reason.contains(NO_THREAD))
}

#[cfg(target_os = "linux")]
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::new(exit::SYSTEM, error.to_string())
    }
}
