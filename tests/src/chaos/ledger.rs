//! The resource that the locks protect: a counter in a file, one for each key.
//!
//! A body reads the counter and later writes the next number, so two concurrent bodies would lose
//! an update. A file lock is held during each read and during each write. The file also stores the
//! greatest fence of its readers and writers, and a writer with an older fence is refused. A writer
//! is also refused after the end of its lease. No lock can prevent such a write: a process stopped
//! during a poll finishes this poll after it resumes.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use leasehold::__test::now;
use rustix::fs::{FlockOperation, flock};

/// The length of a record in bytes: two numbers of twenty digits and a space after each.
const LENGTH: usize = 42;

/// The folder of the counters.
#[derive(Debug, Clone)]
pub(super) struct Ledger(PathBuf);

/// The result of a write.
#[derive(Debug, Clone, Copy)]
pub(super) struct Written {
    pub(super) at: u64,
    pub(super) newest: u64,
    pub(super) kept: bool,
}

impl Ledger {
    pub(super) fn new(folder: &Path) -> Self {
        Self(folder.to_owned())
    }

    /// Reads the counter of `key` and records the fence. After this, a body with an older fence can
    /// no longer write.
    pub(super) fn read(&self, key: &str, fence: u64) -> u64 {
        let file = self.lock(key);
        let (count, newest) = record(&file);
        if newest < fence {
            put(&file, count, fence);
        }
        count
    }

    /// Writes `seen + 1` unless the fence is old or the lease is over. Calls `reported` with the
    /// result before any other process can read the counter.
    pub(super) fn write(
        &self,
        key: &str,
        fence: u64,
        seen: u64,
        deadline: u64,
        reported: impl FnOnce(Written),
    ) {
        let file = self.lock(key);
        let (_, newest) = record(&file);
        let at = now();
        let kept = newest <= fence && at < deadline;
        if kept {
            put(&file, seen + 1, fence);
        }
        reported(Written { at, newest, kept });
    }

    /// Opens the file of `key`, and locks the file until it is closed.
    fn lock(&self, key: &str) -> File {
        let path = self.0.join(key);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.open(path).expect("the counter's file opens");
        flock(&file, FlockOperation::LockExclusive).expect("a file can be locked");
        file
    }
}

fn record(file: &File) -> (u64, u64) {
    let mut bytes = [0; LENGTH];
    // A new file is empty, so it has no record yet.
    if file.read_exact_at(&mut bytes, 0).is_err() {
        return (0, 0);
    }
    let text = String::from_utf8_lossy(&bytes);
    let mut numbers = text
        .split_ascii_whitespace()
        .map_while(|part| part.parse().ok());
    let count = numbers.next().expect("a record has a count");
    (count, numbers.next().expect("a record has a fence"))
}

fn put(file: &File, count: u64, fence: u64) {
    let record = format!("{count:020} {fence:020} ");
    file.write_all_at(record.as_bytes(), 0)
        .expect("the counter's file is writable");
}
