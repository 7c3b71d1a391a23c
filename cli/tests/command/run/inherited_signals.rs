//! Signals that the parent of `leasehold run` ignores, blocks or leaves pending. Also signals of
//! the parent's timer, and the signal at the parent's death.

use std::process::{Command, Stdio};

use leasehold_tests::room;
use leasehold_tests::server::Server;
use redis::cmd;

use crate::harness::journal::Journal;
use crate::harness::parent::{Outputs, started_by};
use crate::harness::{Ended, Running, ended, quoted, run};

fn ignored(names: &str) -> String {
    format!(
        "for one in '{names}'.split(): signal.signal(getattr(signal, 'SIG' + one), signal.SIG_IGN)"
    )
}

fn blocked(names: &str) -> String {
    format!(
        "mask = {{getattr(signal, 'SIG' + one) for one in '{names}'.split()}}\n\
         signal.pthread_sigmask(signal.SIG_BLOCK, mask)"
    )
}

/// Returns the signal mask in a line of `/proc/self/status`, such as `SigIgn: 0000000000001000`.
fn mask(lines: &[String]) -> u64 {
    let digits = lines[0].split_ascii_whitespace().nth(1).expect("a mask");
    u64::from_str_radix(digits, 16).expect("a number")
}

/// Fails if the command does not ignore the same signals as the parent of `leasehold run`.
/// `leasehold run` must restore the parent's setting of SIGPIPE, because every Rust program ignores
/// SIGPIPE from its start.
#[test]
fn ignored_signals_stay_ignored() {
    for names in [
        "",
        "PIPE",
        "HUP INT QUIT",
        "TERM ALRM USR1 WINCH TSTP TTIN TTOU PIPE XFSZ",
    ] {
        let [direct, run] = Outputs::status(&ignored(names), &["SigIgn:"]);
        assert_eq!(direct, run, "{names}");
    }
}

/// systemd starts programs with SIGPIPE ignored, so a write to a closed pipe returns an error.
/// Fails if such a write kills the command of `leasehold run`. Also fails if it does not kill the
/// command when the parent has not ignored SIGPIPE.
#[test]
fn a_missing_reader_is_an_error_instead_of_a_signal() {
    let script = "yes 2>/dev/null | head -n 1 >/dev/null; echo ${PIPESTATUS[0]}";
    for (names, status) in [("PIPE", "1\n"), ("", "141\n")] {
        let outputs = Outputs::of(&ignored(names), &["bash", "-c", script]);
        assert_eq!(
            (&*outputs.direct, &*outputs.run),
            (status, status),
            "{names}"
        );
    }
}

/// The parent ignores SIGCHLD. Fails if `leasehold run` then loses the exit code of its command.
/// Also fails if the command inherits this setting, because a shell would then lose the exit codes
/// of its child processes.
#[test]
fn an_ignored_sigchld_is_reset_to_its_default() {
    let [direct, run] = Outputs::status(&ignored("CHLD"), &["SigIgn:"]);
    let default = Outputs::status("", &["SigIgn:"]).map(|lines| mask(&lines));
    assert_eq!(mask(&direct), default[0] | 1 << 16);
    assert_eq!(mask(&run), default[0]);
}

/// The parent ignores SIGCHLD, and starts many commands that end immediately. A command may end
/// before its guardian, the process that waits for it, is ready. Fails if an exit code is lost.
#[test]
fn an_ignored_sigchld_costs_no_exit_code() {
    let _room = room::enter();
    let server = Server::start();
    let many = "\
import signal, subprocess, sys
def ignore(): signal.signal(signal.SIGCHLD, signal.SIG_IGN)
print({subprocess.run(sys.argv[1:], preexec_fn=ignore).returncode for _ in range(50)})
";
    for code in [0, 7] {
        let inner = run(&server.url(), "job", &[], &format!("exit {code}"));
        let mut command = Command::new("python3");
        command.args(["-c", many]).arg(inner.get_program());
        command
            .args(inner.get_args())
            .env("LEASEHOLD_URL", server.url());
        let ended = ended(command.stdin(Stdio::null()));
        assert_eq!(ended.out, format!("{{{code}}}\n"), "{ended:?}");
    }
}

/// Fails if the command does not block the same signals as the parent of `leasehold run`.
#[test]
fn blocked_signals_stay_blocked() {
    for names in ["", "HUP TERM USR1 RTMIN", "CHLD PIPE CONT TSTP TTOU RTMAX"] {
        let [direct, run] = Outputs::status(&blocked(names), &["SigBlk:"]);
        assert_eq!(direct, run, "{names}");
    }
}

/// The parent has blocked SIGCHLD or SIGTERM. Fails if `leasehold run` misses the end of its
/// command, or does not pass SIGTERM on to the command.
#[test]
fn blocked_signals_reach_leasehold_run() {
    let _room = room::enter();
    let (server, journal) = (Server::start(), Journal::new());
    // With this long ttl there is no renewal. So only the end of the command can wake the guardian,
    // the process that waits for this end.
    let options = ["--ttl", "1h"];
    let command = run(&server.url(), "job", &options, "exit 7");
    let ended = Running::start(&mut started_by(&blocked("CHLD"), &command)).wait();
    assert_eq!(ended.code, Some(7), "{ended:?}");
    let unblock = "import os, signal; signal.pthread_sigmask(signal.SIG_SETMASK, []); \
                   os.system(os.environ[\"NOTE\"]); signal.pause()";
    let mut command = run(
        &server.url(),
        "job",
        &options,
        &format!("exec python3 -c {}", quoted(unblock)),
    );
    command.env("NOTE", journal.note("ran"));
    let holder = Running::start(&mut started_by(&blocked("TERM"), &command));
    journal.wait_for("ran");
    holder.signal("TERM");
    let ended = holder.wait();
    assert_eq!(ended.code, Some(143), "{ended:?}");
}

/// SIGTERM is blocked and already pending when `leasehold run` starts. Fails if the command runs
/// nevertheless, or if the lock stays held.
#[test]
fn a_pending_signal_prevents_the_command() {
    let server = Server::start();
    let setup = format!("{}\nos.kill(os.getpid(), signal.SIGTERM)", blocked("TERM"));
    let command = run(&server.url(), "job", &[], "echo ran");
    let ended = ended(&mut started_by(&setup, &command));
    assert_eq!(
        (ended.code, ended.out.as_str()),
        (Some(143), ""),
        "{ended:?}"
    );
    assert_free(&server);
}

/// The parent sets a timer and then becomes `leasehold run`, as in `perl -e 'alarm shift; exec
/// @ARGV' 3 leasehold run …`. Fails if SIGALRM does not end the command, or if the lock stays held.
#[test]
fn a_timer_of_the_parent_ends_the_command() {
    let _room = room::enter();
    let server = Server::start();
    let command = run(&server.url(), "job", &[], "exec sleep 600");
    let holder = Running::start(&mut started_by("signal.alarm(3)", &command));
    let ended: Ended = holder.wait();
    assert_eq!(ended.code, Some(142), "{ended:?}");
    assert_free(&server);
}

/// `leasehold run` gets SIGTERM when its parent dies (`PR_SET_PDEATHSIG`). Fails if the command
/// does not also get SIGTERM, or if its lock stays held.
#[test]
fn a_parent_death_signal_ends_the_command() {
    let _room = room::enter();
    let (server, journal) = (Server::start(), Journal::new());
    let script = format!(
        "trap '{}; exit' TERM; {}; {}",
        journal.note("terminated").replace('\'', ""),
        journal.note("ran"),
        journal.beat("beat")
    );
    let inner = run(&server.url(), "job", &[], &script);
    let parent = "\
import ctypes, signal, subprocess, sys
libc = ctypes.CDLL(None)
subprocess.run(sys.argv[1:], preexec_fn=lambda: libc.prctl(1, signal.SIGTERM))
";
    let mut command = Command::new("python3");
    command.args(["-c", parent]).arg(inner.get_program());
    command
        .args(inner.get_args())
        .env("LEASEHOLD_URL", server.url());
    let mut parent = Running::start(&mut command);
    journal.wait_for("ran");
    parent.kill();
    journal.wait_for("terminated");
    // The command has ended normally. So `leasehold run` has released the lock, long before the ttl
    // ends.
    let options = ["--wait", "10s"];
    let next = ended(&mut run(&server.url(), "job", &options, "true"));
    assert_eq!(next.code, Some(0), "{next:?}");
}

fn assert_free(server: &Server) {
    let count: u32 = server.probe().run(cmd("EXISTS").arg("lock:job"));
    assert_eq!(count, 0, "the lock is free");
}
