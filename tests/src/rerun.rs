//! Runs one test of the current test program again in another process, with a seeded bug.

use std::env;
use std::process::Command;

/// Parts of the panic messages of tests that could not start a server. Such a test detects nothing.
const NOT_STARTED: &[&str] = &[
    "the behaviour tests need",
    "the tests of ZooKeeper need",
    "tests that set a server's clock need",
    "redis-server does not start",
    "redis-server --sentinel does not start",
    "ZooKeeper has ended",
    "ZooKeeper does not serve",
    "redis-server answers: did not happen",
    "the Sentinel answers: did not happen",
    "etcd answers: did not happen",
    "PostgreSQL answers: did not happen",
    "pgbouncer answers: did not happen",
];

/// Runs `test` of this program with a seeded bug, and fails if the test passes. A test that passes
/// with the bug does not detect the mistake for which it was written.
///
/// # Panics
///
/// Panics if the test passes, or fails because a server does not start. Also panics if this program
/// has no test of this name.
pub fn fails_with(bug: &str, test: &str) {
    fails_in(&[("LEASEHOLD_SEEDED_BUG", bug)], test);
}

/// Like `fails_with`, but these environment variables select the bug.
pub(crate) fn fails_in(bug: &[(&str, &str)], test: &str) {
    let program = env::current_exe().expect("this program has a path");
    let mut again = Command::new(program);
    let again = again.args([test, "--exact"]).envs(bug.iter().copied());
    let ended = again.output().expect("this program starts again");
    let output = [ended.stdout, ended.stderr].concat();
    let output = String::from_utf8_lossy(&output);
    let failed = output.contains(&format!("test {test} ... FAILED"));
    assert!(failed, "{test} does not fail with {bug:?}:\n{output}");
    let panicked = output.contains("panicked at");
    assert!(panicked, "{test} does not panic with {bug:?}:\n{output}");
    let has_servers = NOT_STARTED.iter().all(|text| !output.contains(text));
    assert!(has_servers, "{test} could not start a server:\n{output}");
}
