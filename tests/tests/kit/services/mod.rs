//! Thirty-five tests of typical services, written as users would write them. All tests together
//! take less than a second, and each run has the same history. `scripts/kit-runs` repeats the tests
//! a thousand times and compares the histories.

mod jobs;
mod limits;
mod money;
mod orders;
mod stock;

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{env, fs};

use leasehold::testing::Kit;
use tokio::time::sleep;

/// Environment variable with the folder for the tests' histories. Later runs compare their
/// histories with those of the first run.
const HISTORIES: &str = "LEASEHOLD_KIT_HISTORIES";

/// Checks, at the end of `test`, that the locks of its kit were exclusive. If `HISTORIES` is set,
/// also checks that the history is the same as in the first run.
fn finish(kit: &Kit, test: &str) {
    let history = kit.history();
    assert!(history.is_exclusive(), "{history}");
    let Some(folder) = env::var_os(HISTORIES) else {
        return;
    };
    let file = Path::new(&folder).join(format!("{test}.txt"));
    match fs::read_to_string(&file) {
        Ok(first) => assert_eq!(history.to_string(), first, "{test} went another way"),
        Err(_) => fs::write(&file, history.to_string()).expect("the folder is there"),
    }
}

/// A row or a table in memory, which represents a database.
#[derive(Debug, Default)]
struct Table<T>(Mutex<T>);

impl<T> Table<T> {
    fn new(rows: T) -> Self {
        Self(Mutex::new(rows))
    }

    fn rows(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Simulates a round trip to a database or to another service.
async fn round_trip() {
    sleep(Duration::from_millis(20)).await;
}
