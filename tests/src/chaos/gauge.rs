//! Readings that a running worker reports: the size of its heap, and the number of its bodies that
//! have begun.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::body;

/// The time between two readings.
pub(super) const STEP: Duration = Duration::from_millis(100);

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Reading {
    /// Allocated bytes.
    pub(super) heap: usize,
    /// Bodies that have begun.
    pub(super) sections: u64,
}

/// Starts a thread that keeps writing the current reading to a file.
pub(super) fn record(file: PathBuf, heap: fn() -> usize) {
    std::thread::spawn(move || {
        let part = file.with_extension("part");
        loop {
            let reading = Reading {
                heap: heap(),
                sections: body::begun(),
            };
            let text = serde_json::to_string(&reading).expect("a reading is JSON");
            // The file is renamed into place, so that the reader never finds a half-written file.
            // Errors are ignored here, because the reader reports a missing file.
            let _ = std::fs::write(&part, text).and_then(|()| std::fs::rename(&part, &file));
            std::thread::sleep(STEP);
        }
    });
}

/// Returns the last reading, or `None` before the first one.
pub(super) fn read(file: &Path) -> Option<Reading> {
    serde_json::from_str(&std::fs::read_to_string(file).ok()?).ok()
}
