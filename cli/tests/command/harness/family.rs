//! Finds the processes that another process has started, and sends signals to processes.

use std::fs;
use std::process::Command;

use leasehold_tests::wait;

use super::LONG;

/// Returns the child processes of a process.
pub(crate) fn children(of: i32) -> Vec<i32> {
    with_field(1, of)
}

/// Returns the processes of a session.
pub(crate) fn session(of: i32) -> Vec<i32> {
    with_field(3, of)
}

/// Returns the processes with `value` in a field of `/proc/<pid>/stat`. Index 0 is the first field
/// after the name.
fn with_field(index: usize, value: i32) -> Vec<i32> {
    let folders = fs::read_dir("/proc").expect("/proc is there");
    let stats = folders.filter_map(|folder| {
        let folder = folder.ok()?;
        let id = folder.file_name().to_str()?.parse::<i32>().ok()?;
        let stat = fs::read_to_string(folder.path().join("stat")).ok()?;
        let field = stat.rsplit_once(") ")?.1.split(' ').nth(index)?;
        (field.parse() == Ok(value)).then_some(id)
    });
    stats.collect()
}

/// Returns the guardian and the warden, the processes that end a command in time. The warden is a
/// child of `leasehold run`, and the guardian is a child of the warden.
pub(crate) fn guardian_and_warden(of: i32) -> (i32, i32) {
    let warden = child(of);
    (child(warden), warden)
}

/// Returns the guardian: the process that ends a command before the end of its lease.
pub(crate) fn guardian(of: i32) -> i32 {
    guardian_and_warden(of).0
}

fn child(of: i32) -> i32 {
    let mut found = None;
    wait::until("the child is there", LONG, || {
        found = children(of).first().copied();
        found.is_some()
    });
    found.expect("it was found")
}

/// Sends a signal. Returns true if there is such a process.
pub(crate) fn signal(id: i32, signal: &str) -> bool {
    let mut kill = Command::new("kill");
    kill.args([format!("-{signal}"), id.to_string()]);
    kill.output().expect("`kill` is there").status.success()
}

/// True if a process runs.
pub(crate) fn is_alive(id: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{id}/stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

/// Stops a process (SIGSTOP), and waits until it is stopped.
pub(crate) fn stop(id: i32) {
    assert!(signal(id, "STOP"), "it runs");
    wait::until("it stands still", LONG, || {
        let stat = fs::read_to_string(format!("/proc/{id}/stat"));
        stat.is_ok_and(|stat| stat.contains(") T "))
    });
}
