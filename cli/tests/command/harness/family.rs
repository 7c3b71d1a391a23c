//! Finds the processes that another process has started, and sends signals to processes.

use std::fs;
use std::process::Command;

use leasehold_tests::wait;

use super::LONG;

/// Returns the ids of the child processes of the process `of`.
pub(crate) fn children(of: i32) -> Vec<i32> {
    with_field(1, of)
}

/// Returns the ids of the processes in the session `of`.
pub(crate) fn session(of: i32) -> Vec<i32> {
    with_field(3, of)
}

/// Returns the ids of all processes whose `/proc/<pid>/stat` has `value` in the field `index`.
/// Index 0 is the first field after the name.
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

/// Returns the process ids of the guardian and the warden of the `leasehold run` with the id `of`.
/// The warden is a child of `leasehold run`, and the guardian is a child of the warden.
pub(crate) fn guardian_and_warden(of: i32) -> (i32, i32) {
    let warden = child(of);
    (child(warden), warden)
}

/// Returns the process id of the guardian of a `leasehold run`. The guardian ends the command
/// before the end of its lease.
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

/// Sends a signal, such as `TERM`. Returns true if the process exists.
pub(crate) fn signal(id: i32, signal: &str) -> bool {
    let mut kill = Command::new("kill");
    kill.args([format!("-{signal}"), id.to_string()]);
    kill.output().expect("`kill` is there").status.success()
}

/// True if the process exists and is not a zombie.
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
