//! The processes below one, and signals to them.

use std::fs;
use std::process::Command;

use leasehold_tests::wait;

use super::LONG;

/// The child processes of a process.
pub(crate) fn children(of: i32) -> Vec<i32> {
    let folders = fs::read_dir("/proc").expect("/proc is there");
    let stats = folders.filter_map(|folder| {
        let folder = folder.ok()?;
        let id = folder.file_name().to_str()?.parse::<i32>().ok()?;
        let stat = fs::read_to_string(folder.path().join("stat")).ok()?;
        let parent = stat.rsplit_once(") ")?.1.split(' ').nth(1)?;
        (parent.parse() == Ok(of)).then_some(id)
    });
    stats.collect()
}

/// The guardian of a command: the child of `leasehold run`.
pub(crate) fn guardian(of: i32) -> i32 {
    let mut found = None;
    wait::until("the guardian is there", LONG, || {
        found = children(of).first().copied();
        found.is_some()
    });
    found.expect("it was found")
}

/// Sends a signal, and returns whether there is such a process.
pub(crate) fn signal(id: i32, signal: &str) -> bool {
    let mut kill = Command::new("kill");
    kill.args([format!("-{signal}"), id.to_string()]);
    kill.output().expect("`kill` is there").status.success()
}

/// Whether a process runs.
pub(crate) fn is_alive(id: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{id}/stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

/// Stops a process where it is, and waits until it stands still.
pub(crate) fn stop(id: i32) {
    assert!(signal(id, "STOP"), "it runs");
    wait::until("it stands still", LONG, || {
        let stat = fs::read_to_string(format!("/proc/{id}/stat"));
        stat.is_ok_and(|stat| stat.contains(") T "))
    });
}
