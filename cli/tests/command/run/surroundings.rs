//! The environment, the standard input and the terminal of a command that `leasehold run` starts.

use std::io::Write as _;
use std::process::{Command, Stdio};

use leasehold_tests::quorum::Quorum;
use leasehold_tests::room;
use leasehold_tests::server::Server;

use crate::harness::{ended, leasehold, run};

/// Fails if the command's environment lacks the lock's key or fence, or if the next run has no
/// greater fence.
#[test]
fn the_environment_names_the_lock() {
    let server = Server::start();
    let script = "echo $LEASEHOLD_KEY; echo $LEASEHOLD_FENCE";
    let mut fences = Vec::new();
    for _ in 0..2 {
        let mut command = run(&server.url(), "job:7", &[], script);
        let ended = ended(command.env("LEASEHOLD_FENCE", "of a lock further out"));
        let (key, fence) = ended.out.split_once('\n').expect("two lines");
        assert_eq!(key, "job:7");
        fences.push(fence.trim().parse::<u64>().expect("a number"));
    }
    assert!(fences[0] < fences[1], "{fences:?}");
}

/// A lock on a quorum of Redis servers has no fence. Fails if its command gets the fence of an
/// outer lock from the environment, because this fence does not protect the inner lock.
#[test]
fn a_lock_without_a_fence_sets_no_fence_variable() {
    let nodes = Quorum::old(3);
    let script = "echo ${LEASEHOLD_FENCE-none}";
    let mut command = run(&nodes.url(), "job", &[], script);
    let ended = ended(command.env("LEASEHOLD_FENCE", "17"));
    assert_eq!(ended.out, "none\n", "{ended:?}");
}

/// Fails if the command does not inherit `LEASEHOLD_URL` from `leasehold run`, or inherits it in
/// spite of `--without-url`. Also fails if `--url` sets this variable for the command.
#[test]
fn the_url_is_inherited_unless_excluded() {
    let server = Server::start();
    let script = "echo ${LEASEHOLD_URL-none}";
    for (options, expected) in [(&[][..], &*server.url()), (&["--without-url"], "none")] {
        let ended = ended(&mut run(&server.url(), "job", options, script));
        assert_eq!(ended.out.trim_end(), expected, "{ended:?}");
    }
    let mut command = run(&server.url(), "job", &["--url", &server.url()], script);
    let ended = ended(command.env_remove("LEASEHOLD_URL"));
    assert_eq!(ended.out, "none\n", "{ended:?}");
}

/// Fails if the command does not read the standard input of `leasehold run` to its end.
#[test]
fn the_command_reads_the_standard_input() {
    let server = Server::start();
    let mut command = run(&server.url(), "job", &[], "cat; echo end");
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("the command starts");
    let mut input = child.stdin.take().expect("it is piped");
    input.write_all(b"a line\n").expect("it is read");
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "a line\nend\n");
}

/// A process in a background process group is stopped when it reads from the terminal. Fails if the
/// command's group is not in the foreground, so that the command cannot read from the terminal.
#[test]
fn the_command_controls_the_terminal() {
    let _room = room::enter();
    let server = Server::start();
    let script = "read line; read second </dev/tty; echo got $line and $second";
    let inner = run(&server.url(), "job", &[], script);
    let program = inner.get_program().to_str().expect("text");
    let mut arguments = vec![program];
    arguments.extend(inner.get_args().map(|part| part.to_str().expect("text")));
    let spawn = "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)";
    let mut command = Command::new("python3");
    command.args(["-c", spawn]).args(arguments);
    command.env("LEASEHOLD_URL", server.url());
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("python3 is installed");
    let mut input = child.stdin.take().expect("it is piped");
    input.write_all(b"a line\na second\n").expect("it is read");
    let output = child.wait_with_output().expect("it ends");
    drop(input);
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(out.contains("got a line and a second"), "{out}");
    assert_eq!(output.status.code(), Some(0), "{out}");
}

/// Fails if a `leasehold run` inside another one cannot lock a different key. Also fails if it
/// waits for the outer run's key instead of exiting with code 75.
#[test]
fn runs_can_be_nested() {
    let _room = room::enter();
    let server = Server::start();
    let program = env!("CARGO_BIN_EXE_leasehold");
    let inner = format!("{program} run inner -- sh -c 'echo $LEASEHOLD_KEY'");
    let both = ended(&mut run(&server.url(), "outer", &[], &inner));
    assert_eq!(
        (both.code, both.out.as_str()),
        (Some(0), "inner\n"),
        "{both:?}"
    );
    let same = format!("{program} run outer -- true");
    let refused = ended(&mut run(&server.url(), "outer", &[], &same));
    assert_eq!(refused.code, Some(75), "{refused:?}");
}

/// A shell opens descriptor 3 for `leasehold run`. Fails if the command cannot write to this
/// descriptor.
#[test]
fn open_files_are_inherited() {
    let server = Server::start();
    let program = env!("CARGO_BIN_EXE_leasehold");
    let script = format!("{program} run inner -- sh -c 'echo there >&3' 3>&1");
    let mut command = leasehold(&server.url());
    let ended = ended(command.args(["run", "outer", "--", "sh", "-c", &script]));
    assert_eq!(ended.out, "there\n", "{ended:?}");
}
