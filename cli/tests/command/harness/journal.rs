//! A file to which several processes append lines. Each process appends a line for each of its
//! actions, so the lines show the order of all actions.

use std::fs;
use std::path::PathBuf;

use leasehold_tests::scratch::Scratch;
use leasehold_tests::wait;

use super::{LONG, quoted};

/// A journal in a temporary folder.
pub(crate) struct Journal {
    scratch: Scratch,
}

impl Journal {
    pub(crate) fn new() -> Self {
        Self {
            scratch: Scratch::new(env!("CARGO_TARGET_TMPDIR")),
        }
    }

    /// Returns the path of the file `name` in the journal's folder.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.scratch.file(name)
    }

    /// Returns the path of the journal, quoted for a shell script.
    pub(crate) fn path(&self) -> String {
        quoted(self.file("journal"))
    }

    /// Returns a shell command that appends `line` to the journal.
    pub(crate) fn note(&self, line: &str) -> String {
        format!("echo {line} >> {}", self.path())
    }

    /// Returns a shell command that never ends, and appends `line` to the journal every 10 ms.
    pub(crate) fn beat(&self, line: &str) -> String {
        format!(
            "while :; do echo {line}; sleep 0.01; done >> {}",
            self.path()
        )
    }

    /// Like [`beat`](Self::beat), but the shell command ends once the test has called
    /// [`open`](Self::open) with `name`.
    pub(crate) fn beat_until(&self, line: &str, name: &str) -> String {
        let file = quoted(self.file(name));
        format!(
            "while [ ! -e {file} ]; do echo {line}; sleep 0.01; done >> {}",
            self.path()
        )
    }

    /// Returns a shell command that waits until the test has called [`open`](Self::open) with
    /// `name`.
    pub(crate) fn until(&self, name: &str) -> String {
        let file = quoted(self.file(name));
        format!("while [ ! -e {file} ]; do sleep 0.01; done")
    }

    /// Ends the shell commands of [`until`](Self::until) and [`beat_until`](Self::beat_until) with
    /// this name.
    pub(crate) fn open(&self, name: &str) {
        fs::write(self.file(name), "").expect("the folder is writable");
    }

    /// Undoes [`open`](Self::open): shell commands of [`until`](Self::until) with this name wait
    /// again.
    pub(crate) fn close(&self, name: &str) {
        fs::remove_file(self.file(name)).expect("it was opened");
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        let text = fs::read_to_string(self.file("journal")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Waits for a line that begins with `start`, and returns the text after `start`.
    pub(crate) fn wait_for(&self, start: &str) -> String {
        let mut found = None;
        wait::until(&format!("a line `{start}`"), LONG, || {
            let lines = self.lines();
            let mut rest = lines.iter().filter_map(|line| line.strip_prefix(start));
            found = rest.next().map(|rest| rest.trim().to_owned());
            found.is_some()
        });
        found.expect("it was found")
    }

    /// Waits until this many lines begin with `start`.
    pub(crate) fn wait_for_many(&self, start: &str, count: usize) {
        wait::until(&format!("{count} lines `{start}`"), LONG, || {
            let lines = self.lines();
            let found = lines.iter().filter(|line| line.starts_with(start));
            count <= found.count()
        });
    }

    /// Waits for a line that consists of `start` and a process id, and returns the id.
    pub(crate) fn process(&self, start: &str) -> i32 {
        let id = self.wait_for(start);
        id.parse().unwrap_or_else(|_| panic!("no process: {id}"))
    }

    /// Fails unless all lines that begin with `first` come before all lines that begin with
    /// `second`.
    pub(crate) fn has_in_order(&self, first: &str, second: &str) {
        let lines = self.lines();
        let at = |start: &str| lines.iter().position(|line| line.starts_with(start));
        let next = at(second).unwrap_or_else(|| panic!("no line `{second}`: {lines:?}"));
        assert!(
            at(first).is_some_and(|at| at < next),
            "no line `{first}` first: {lines:?}"
        );
        let late = lines[next..]
            .iter()
            .filter(|line| line.starts_with(first))
            .count();
        assert_eq!(late, 0, "`{first}` after `{second}`: {:?}", &lines[next..]);
    }
}
