//! Finds the processes started by a command, and ends all of them.

use std::collections::HashSet;
use std::time::Duration;
use std::{fs, io};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, wait, waitpid};

/// Interval between two attempts to kill the processes that must end.
pub(super) const ROUND: Duration = Duration::from_millis(5);

/// One process of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) id: i32,
    pub(super) parent: i32,
    /// Id of the process group. 0 if the group's leader is outside this container.
    pub(super) group: i32,
    /// Id of the session. 0 if the session's leader is outside this container.
    pub(super) session: i32,
    /// True if the process has ended, but its parent has not yet collected its status.
    pub(super) ended: bool,
}

/// Result of one attempt to kill the processes that must end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Killed {
    /// Number of all processes, including those that have ended.
    pub(super) found: usize,
    /// Number of living processes that the system does not let this user kill.
    pub(super) refused: usize,
}

/// Returns this process. Does not use `getsid` and `getpgrp` of rustix, because they panic if the
/// session or group has the id 0, as in some containers.
pub(super) fn this_process() -> io::Result<Process> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    parse(&stat).ok_or_else(|| io::Error::other("/proc/self/stat cannot be read"))
}

/// Returns all processes below `root`, at any depth, without `root` itself. A process whose parent
/// has died is below its nearest ancestor that adopts orphans.
pub(super) fn descendants(root: Pid) -> io::Result<Vec<Process>> {
    let mut rest = processes()?;
    let mut family = HashSet::from([root.as_raw_nonzero().get()]);
    let mut found = Vec::new();
    loop {
        let (children, others): (Vec<_>, Vec<_>) = rest
            .into_iter()
            .partition(|process| family.contains(&process.parent));
        if children.is_empty() {
            return Ok(found);
        }
        family.extend(children.iter().map(|process| process.id));
        found.extend(children);
        rest = others;
    }
}

/// Kills every process below `root` (SIGKILL). Call this repeatedly until none is found, because a
/// process may start another one meanwhile.
pub(super) fn kill_descendants(root: Pid) -> io::Result<Killed> {
    let mut killed = Killed::default();
    let family = descendants(root)?;
    killed.found = family.len();
    for process in family.iter().filter(|process| !process.ended) {
        let sent = Pid::from_raw(process.id).map(|pid| kill_process(pid, Signal::KILL));
        if sent == Some(Err(Errno::PERM)) {
            killed.refused += 1;
        }
    }
    Ok(killed)
}

/// Kills all processes below this one. Returns when none is left, not even an ended one: a process
/// that starts another one and ends while the processes are listed can hide the other one.
pub(super) async fn end_descendants() -> io::Result<()> {
    while kill_descendants(getpid())?.found > 0 {
        while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
        tokio::time::sleep(ROUND).await;
    }
    Ok(())
}

/// Kills a child process, and collects its status. Does nothing if the status was collected before,
/// because another process may have the id by now.
pub(super) fn end_child(child: Pid) {
    if matches!(waitpid(Some(child), WaitOptions::NOHANG), Ok(None)) {
        let _ = kill_process(child, Signal::KILL);
        let _ = waitpid(Some(child), WaitOptions::empty());
    }
}

/// True if the process group of `this` is orphaned: no process of the group has a parent in another
/// group of the session. A shell with job control would be such a parent, and could continue a
/// suspended group.
pub(super) fn is_orphaned(this: &Process) -> io::Result<bool> {
    let all = processes()?;
    let outside = all
        .iter()
        .filter(|other| other.session == this.session && other.group != this.group);
    let parents: HashSet<i32> = outside.map(|other| other.id).collect();
    let mut group = all.iter().filter(|other| other.group == this.group);
    Ok(!group.any(|other| parents.contains(&other.parent)))
}

/// Returns all visible processes.
fn processes() -> io::Result<Vec<Process>> {
    let mut processes = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let name = entry.file_name();
        let is_process = name
            .to_str()
            .is_some_and(|name| name.parse::<i32>().is_ok());
        if !is_process {
            continue;
        }
        // A process may end after its folder was listed.
        if let Ok(stat) = fs::read(entry.path().join("stat")) {
            processes.extend(parse(&String::from_utf8_lossy(&stat)));
        }
    }
    Ok(processes)
}

/// Parses `/proc/<pid>/stat`: `pid (name) state ppid pgrp session …`. A name may contain brackets
/// and spaces.
fn parse(stat: &str) -> Option<Process> {
    let (id, rest) = stat.split_once(" (")?;
    let (_, rest) = rest.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<i32>().ok();
    // A process is shown as a zombie once its first thread has ended. But the process is alive
    // while other threads run, so the number of its threads is read, too.
    let dead = matches!(*fields.first()?, "Z" | "X" | "x") && number(17)? <= 1;
    Some(Process {
        id: id.parse().ok()?,
        parent: number(1)?,
        group: number(2)?,
        session: number(3)?,
        ended: dead,
    })
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::process::{Command, Stdio};

    use super::*;

    /// Fails if a process name with brackets makes the parser read wrong fields.
    #[test]
    fn a_process_name_may_contain_brackets() {
        let stat = "42 (a) b) (c) S 7 42 40 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 3 0 99";
        let process = Process {
            id: 42,
            parent: 7,
            group: 42,
            session: 40,
            ended: false,
        };
        assert_eq!(parse(stat), Some(process));
        assert_eq!(parse("nonsense"), None);
    }

    /// Fails if a process cannot be read because the leader of its group or session is outside this
    /// container. Such a leader has the id 0 with `docker exec` and on many build machines.
    #[test]
    fn a_leader_outside_of_the_container_has_id_0() {
        let stat = "42 (a) S 7 0 0 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 3 0 99";
        let process = parse(stat).expect("it is a process");
        assert_eq!((process.group, process.session), (0, 0));
    }

    /// Fails if this process reads the wrong id or parent for itself.
    #[test]
    fn a_process_reads_its_own_id_and_parent() {
        let process = this_process().expect("/proc is there");
        assert_eq!(process.id, getpid().as_raw_nonzero().get());
        let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get());
        assert_eq!(process.parent, parent.unwrap_or(0));
    }

    /// Fails if a process counts as ended while one of its threads still runs.
    #[test]
    fn a_zombie_with_threads_is_alive() {
        let stat = |threads: u32| {
            format!("42 (a) Z 7 42 40 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 {threads} 0 99")
        };
        assert!(parse(&stat(1)).is_some_and(|process| process.ended));
        assert!(parse(&stat(2)).is_some_and(|process| !process.ended));
    }

    /// Fails if a grandchild is not found, or not killed.
    #[test]
    fn grandchildren_are_found_and_killed() {
        let mut shell = Command::new("sh")
            .args(["-c", "sh -c 'sleep 60; :' ; :"])
            .spawn()
            .expect("a shell starts");
        let id = i32::try_from(shell.id()).expect("a process id");
        let pid = Pid::from_raw(id).expect("a process id");
        // Waits until the shell has started a second shell, and the second shell has started
        // `sleep`.
        while descendants(pid).expect("/proc is there").len() < 2 {
            std::thread::yield_now();
        }
        let below_us = descendants(getpid()).expect("/proc is there");
        assert!(below_us.iter().any(|process| process.id == id));
        while kill_descendants(pid).expect("/proc is there").found > 0 {}
        shell.wait().expect("the shell ends when its child has");
    }

    /// Fails if a process is killed although it is no child of this process. A grandchild stands
    /// for a process that has got the id of an ended child. Also fails if a child is not ended.
    #[test]
    fn only_a_child_is_ended() {
        let mut shell = Command::new("sh")
            .args(["-c", "sleep 60 & echo $!; wait $!; echo $?"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell starts");
        let output = shell.stdout.take().expect("it is a pipe");
        let mut lines = BufReader::new(output).lines();
        let mut number = || {
            let line = lines.next().expect("a line").expect("text");
            line.parse::<i32>().expect("a number")
        };
        let grandchild = Pid::from_raw(number()).expect("a process id");
        end_child(grandchild);
        kill_process(grandchild, Signal::TERM).expect("it is alive");
        assert_eq!(number(), 128 + Signal::TERM.as_raw());
        shell.wait().expect("the shell ends when its child has");
        let mut child = Command::new("sleep").arg("60").spawn().expect("it starts");
        let id = i32::try_from(child.id()).expect("a process id");
        end_child(Pid::from_raw(id).expect("a process id"));
        assert!(child.wait().is_err(), "its status is collected");
    }
}
