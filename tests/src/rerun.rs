//! Runs one test of the present test program again, with a seeded bug.

use std::env;
use std::process::Command;

/// Fails if `test` of this program does not fail with `bug`: then the test would not find the
/// mistake that it is there for.
///
/// # Panics
///
/// When the test passes, or there is none of this name.
pub fn fails_with(bug: &str, test: &str) {
    fails_in(&[("LEASEHOLD_SEEDED_BUG", bug)], test);
}

/// The same for a bug that these environment variables name.
pub(crate) fn fails_in(bug: &[(&str, &str)], test: &str) {
    let program = env::current_exe().expect("this program has a path");
    let mut again = Command::new(program);
    let again = again.args([test, "--exact"]).envs(bug.iter().copied());
    let ended = again.output().expect("this program starts again");
    let output = String::from_utf8_lossy(&ended.stdout);
    let failed = output.contains(&format!("test {test} ... FAILED"));
    assert!(failed, "{test} does not fail with {bug:?}:\n{output}");
}
