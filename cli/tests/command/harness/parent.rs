//! Parents of `leasehold run` that pass an unusual state on to their child, such as ignored or
//! blocked signals. For example, systemd, cron, Perl or a container's init may do this.

use std::process::{Command, Stdio};

use leasehold_tests::server::Server;

use super::{ended, leasehold};

/// Returns a command that starts Python, changes the state of the process with the Python code
/// `setup`, and executes `inner` in the same process. At its start Python ignores SIGPIPE and
/// SIGXFSZ. Both are reset before `setup`, so that `inner` does not ignore them.
pub(crate) fn started_by(setup: &str, inner: &Command) -> Command {
    let program = format!(
        "\
import ctypes, os, resource, signal, socket, sys
for one in (signal.SIGPIPE, signal.SIGXFSZ): signal.signal(one, signal.SIG_DFL)
{setup}
os.execvp(sys.argv[1], sys.argv[1:])
"
    );
    let mut command = Command::new("python3");
    command.args(["-c", &program]);
    command.arg(inner.get_program()).args(inner.get_args());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.stdin(Stdio::null());
    command
}

/// Outputs of one program, which the same parent starts twice: directly, and through `leasehold
/// run`.
pub(crate) struct Outputs {
    pub(crate) direct: String,
    pub(crate) run: String,
}

impl Outputs {
    pub(crate) fn of(setup: &str, program: &[&str]) -> Self {
        let server = Server::start();
        let mut direct = Command::new(program[0]);
        direct
            .args(&program[1..])
            .env("LEASEHOLD_URL", server.url());
        let mut run = leasehold(&server.url());
        run.args(["run", "job", "--"]).args(program);
        let [direct, run] = [direct, run].map(|command| {
            let ended = ended(&mut started_by(setup, &command));
            assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{ended:?}");
            ended.out
        });
        Self { direct, run }
    }

    /// Returns the lines of `/proc/self/status` that begin with one of `starts`. The first lines
    /// are from a process started directly, the second from a process started through `leasehold
    /// run`.
    pub(crate) fn status(setup: &str, starts: &[&str]) -> [Vec<String>; 2] {
        let outputs = Self::of(setup, &["cat", "/proc/self/status"]);
        [outputs.direct, outputs.run].map(|status| {
            let lines = status.lines().map(str::to_owned);
            let found: Vec<String> = lines
                .filter(|line| starts.iter().any(|start| line.starts_with(start)))
                .collect();
            assert!(starts.len() <= found.len(), "{starts:?}: {status}");
            found
        })
    }
}
