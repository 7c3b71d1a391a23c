//! Child processes that end together with the test, even if the test is killed.

use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::wait;

/// Script of the shell that watches the test process. The shell's standard input ends when the test
/// process ends, even by SIGKILL. The shell then kills the process `$1` and removes the folder
/// `$2`. It also removes the files that `libfaketime` made for `$1`, because `libfaketime` would
/// fail in a later process with the same id.
const LEASH: &str = r#"read -r _; kill -9 "$1" 2>/dev/null; [ -z "$2" ] || rm -rf "$2"
    rm -f "/dev/shm/faketime_shm_$1" "/dev/shm/sem.faketime_sem_$1""#;

/// Time limit for a process to stop after SIGSTOP.
const STILL: Duration = Duration::from_secs(5);

/// A child process, killed together with the test process. Dropping this value kills the child. If
/// the test process dies without dropping this value, a shell that watches the test process kills
/// the child.
#[derive(Debug)]
pub struct Leashed {
    child: Child,
    leash: Child,
}

impl Leashed {
    /// Starts a shell that watches the test process. If the test process dies, the shell kills
    /// `child` and removes `folder`.
    ///
    /// # Panics
    ///
    /// Panics if no shell can be started.
    pub fn new(child: Child, folder: Option<&Path>) -> Self {
        let leash = Command::new("sh")
            .args(["-c", LEASH, "leash"])
            .arg(child.id().to_string())
            .arg(folder.unwrap_or(Path::new("")))
            .stdin(Stdio::piped())
            .spawn()
            .expect("a shell starts");
        Self { child, leash }
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The child, for example to take its pipes.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// The exit status, if the process has ended.
    ///
    /// # Panics
    ///
    /// Panics if the operating system refuses to report it.
    pub fn exited(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child can be waited for")
    }

    /// Sends SIGSTOP, and waits until the process has stopped: on a busy machine, its threads may
    /// continue for some milliseconds after the signal.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
        // For an ended process, `waitid` returns an error instead of reporting a stop. The error
        // ends the wait, too.
        wait::try_until(STILL, || {
            let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
            let stopped = waitid(WaitId::Pid(self.pid()), options);
            !matches!(stopped, Ok(None))
        });
    }

    /// Resumes a stopped process (SIGCONT).
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Kills the process (SIGKILL) and waits for its end.
    pub fn kill(&mut self) {
        // The watching shell is killed first. Otherwise it could later kill another process that
        // has got the child's id.
        let _ = self.leash.kill();
        let _ = self.leash.wait();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("a child takes signals");
    }

    fn pid(&self) -> Pid {
        let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        id.expect("a process id")
    }
}

impl Drop for Leashed {
    fn drop(&mut self) {
        self.kill();
    }
}
