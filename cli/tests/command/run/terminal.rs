//! The terminal of `leasehold run`, of its command, and of the script around it.

use std::fs;
use std::process::{Command, Stdio};

use leasehold_tests::room;
use leasehold_tests::server::Server;
use rustix::process::Signal;

use crate::harness::journal::Journal;
use crate::harness::{Running, quoted};

/// Python program that runs its arguments as a command on a new terminal. Its standard input is the
/// keyboard.
const TERMINAL: &str = "\
import os, pty, sys
sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))
";

/// Python program that runs a script like a shell with job control, in the foreground (`front`) or
/// in the background. When the script is suspended, notes the signal in the journal, and continues
/// the script in the foreground.
const JOB_CONTROL: &str = "\
import os, signal, sys
place, script, journal = sys.argv[1:]
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
job = os.fork()
if job == 0:
    os.setpgid(0, 0)
    if place == 'front': os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execvp('sh', ['sh', '-c', script])
_, status = os.waitpid(job, os.WUNTRACED)
if os.WIFSTOPPED(status):
    os.tcsetpgrp(0, os.getpgrp())
    with open(journal, 'a') as lines:
        print('suspended by', signal.Signals(os.WSTOPSIG(status)).name, file=lines)
    os.tcsetpgrp(0, job)
    os.killpg(job, signal.SIGCONT)
    _, status = os.waitpid(job, 0)
sys.exit(os.waitstatus_to_exitcode(status))
";

/// Python program that runs a script as an orphaned process group in the background: no other
/// process of the session is the parent of a process in the group. Waits for the script's end.
const ORPHANED: &str = "\
import os, sys, time
ended, alive = os.pipe()
if os.fork() == 0:
    parent = os.getpid()
    if os.fork() == 0:
        while os.getppid() == parent: time.sleep(0.01)
        os.setpgid(0, 0)
        os.set_inheritable(alive, True)
        os.execvp('sh', ['sh', '-c', sys.argv[1]])
    os._exit(0)
os.close(alive)
os.wait()
os.read(ended, 1)
";

const CTRL_Z: &str = "\u{1a}";

/// Runs a command on a new terminal. The test writes on its keyboard.
fn on_a_terminal(server: &Server, command: &[&str]) -> Running {
    let mut python = Command::new("python3");
    python.args(["-c", TERMINAL]).args(command);
    python.env("LEASEHOLD_URL", server.url());
    Running::start(python.stdin(Stdio::piped()))
}

/// Runs a script on a new terminal, under a shell with job control.
fn under_job_control(server: &Server, journal: &Journal, place: &str, script: &str) -> Running {
    let file = journal.file("journal");
    let file = file.to_str().expect("text");
    on_a_terminal(server, &["python3", "-c", JOB_CONTROL, place, script, file])
}

/// Returns the shell command `leasehold run job -- sh FILE`. The file contains `script`.
fn run(journal: &Journal, script: &str) -> String {
    fs::write(journal.file("command"), script).expect("the folder is writable");
    format!(
        "{} --io-timeout 10s run job -- sh {}",
        quoted(env!("CARGO_BIN_EXE_leasehold")),
        quoted(journal.file("command"))
    )
}

/// Returns a script that reads a line from the terminal and notes it.
fn read(journal: &Journal) -> String {
    format!("read line </dev/tty; {}", journal.note("got $line"))
}

/// The command of `leasehold run` reads a line from the terminal, and then the script around it
/// reads the next one. `redirection` is that of `leasehold run`.
fn is_read_in_turn(redirection: &str) {
    let _room = room::enter();
    let (server, journal) = (Server::start(), Journal::new());
    let script = format!(
        "{} {redirection}; read line; {}",
        run(&journal, &read(&journal)),
        journal.note("then $line")
    );
    let mut terminal = on_a_terminal(&server, &["sh", "-c", &script]);
    terminal.write("a\nb\n");
    let ended = terminal.wait();
    assert_eq!(journal.lines(), ["got a", "then b"], "{ended:?}");
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

/// Fails if the rest of a script cannot read the terminal after `leasehold run` has ended.
#[test]
fn a_script_gets_the_terminal_back() {
    is_read_in_turn("");
}

/// Fails if a command hangs because it reads the terminal while its output is redirected. Also
/// fails if the script does not get the terminal back.
#[test]
fn a_command_with_redirected_output_reads_the_terminal() {
    is_read_in_turn(">/dev/null");
}

/// Nobody could continue the session's first process after ctrl-z, as in `docker run -it` or `ssh
/// -t`. Fails if ctrl-z suspends the command or `leasehold run` forever.
#[test]
fn ctrl_z_without_job_control_suspends_nothing() {
    let _room = room::enter();
    let (server, journal) = (Server::start(), Journal::new());
    let script = format!("{}; {}; exit 3", read(&journal), read(&journal));
    let run = format!("exec {}", run(&journal, &script));
    let mut terminal = on_a_terminal(&server, &["sh", "-c", &run]);
    terminal.write("a\n");
    journal.wait_for("got a");
    terminal.write(&format!("{CTRL_Z}b\n"));
    let ended = terminal.wait();
    assert_eq!(journal.lines(), ["got a", "got b"], "{ended:?}");
    assert_eq!(ended.code, Some(3), "{ended:?}");
}

/// The output is redirected and the command does not read the terminal. So `leasehold run` receives
/// ctrl-z and passes it on. Fails if it then stops, although nobody could continue it. Also fails
/// if a command that has suspended itself is not continued.
#[test]
fn a_forwarded_ctrl_z_without_job_control_suspends_nothing() {
    let _room = room::enter();
    let (server, journal) = (Server::start(), Journal::new());
    let pipe = quoted(journal.file("pipe"));
    let script = format!(
        "kill -TSTP $$; mkfifo {pipe}; exec 3<>{pipe}
         ctrl_z() {{ {}; exit 3; }}; trap ctrl_z TSTP; {}; read line <&3",
        journal.note("TSTP"),
        journal.note("ran"),
    );
    let run = format!("exec {} >/dev/null", run(&journal, &script));
    let mut terminal = on_a_terminal(&server, &["sh", "-c", &run]);
    journal.wait_for("ran");
    terminal.write(CTRL_Z);
    let ended = terminal.wait();
    assert_eq!(journal.lines(), ["ran", "TSTP"], "{ended:?}");
    assert_eq!(ended.code, Some(3), "{ended:?}");
}

/// Fails if ctrl-z suspends the command, but not the script around `leasehold run`: the shell would
/// wait for the script forever. Also fails if the command does not continue with the script.
#[test]
fn ctrl_z_suspends_the_whole_script() {
    let _room = room::enter();
    let (server, journal) = (Server::start(), Journal::new());
    let reads = format!("{}; {}", read(&journal), read(&journal));
    let script = format!("{}; {}", run(&journal, &reads), journal.note("code $?"));
    let mut terminal = under_job_control(&server, &journal, "front", &script);
    terminal.write("a\n");
    journal.wait_for("got a");
    terminal.write(CTRL_Z);
    journal.wait_for("suspended");
    terminal.write("b\n");
    let ended = terminal.wait();
    let lines = ["got a", "suspended by SIGSTOP", "got b", "code 0"];
    assert_eq!(journal.lines(), lines, "{ended:?}");
}

/// A command in the background reads the terminal. Fails if its script is not suspended with it, so
/// that the shell would not report this. Also fails if the command cannot read in the foreground.
#[test]
fn a_script_in_the_background_is_suspended_with_its_command() {
    let _room = room::enter();
    for redirection in ["", ">/dev/null"] {
        let (server, journal) = (Server::start(), Journal::new());
        let script = format!(
            "{} {redirection}; {}",
            run(&journal, &read(&journal)),
            journal.note("code $?")
        );
        let mut terminal = under_job_control(&server, &journal, "back", &script);
        terminal.write("a\n");
        let ended = terminal.wait();
        let lines = ["suspended by SIGTTIN", "got a", "code 0"];
        assert_eq!(journal.lines(), lines, "{ended:?}");
    }
}

/// A command in the background reads the terminal, and no shell could put it in the foreground.
/// Fails if it is suspended forever, and so keeps its lock.
#[test]
fn an_orphaned_command_in_the_background_is_ended() {
    let _room = room::enter();
    let (server, journal) = (Server::start(), Journal::new());
    let script = format!(
        "{}; {}",
        run(&journal, &read(&journal)),
        journal.note("code $?")
    );
    let terminal = on_a_terminal(&server, &["python3", "-c", ORPHANED, &script]);
    let ended = terminal.wait();
    let code = 128 + Signal::HUP.as_raw();
    assert_eq!(journal.lines(), [format!("code {code}")], "{ended:?}");
}
