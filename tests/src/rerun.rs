//! Runs one test of the current test program again in another process, with a seeded bug.

use std::env;
use std::process::Command;

/// Runs `test` of this program with a seeded bug, and fails if the test passes. A test that passes
/// with the bug does not detect the mistake for which it was written.
///
/// # Panics
///
/// Panics if the test passes, or if this program has no test of this name.
pub fn fails_with(bug: &str, test: &str) {
    fails_in(&[("LEASEHOLD_SEEDED_BUG", bug)], test);
}

/// Like `fails_with`, but these environment variables select the bug.
pub(crate) fn fails_in(bug: &[(&str, &str)], test: &str) {
    let program = env::current_exe().expect("this program has a path");
    let mut again = Command::new(program);
    let again = again.args([test, "--exact"]).envs(bug.iter().copied());
    let ended = again.output().expect("this program starts again");
    let output = String::from_utf8_lossy(&ended.stdout);
    let failed = output.contains(&format!("test {test} ... FAILED"));
    assert!(failed, "{test} does not fail with {bug:?}:\n{output}");
}
